#include "go_asm.h"
#include "textflag.h"

// Sixteen times the same byte.
#define SIXTEEN(name, byte) \
	DATA name<>+0(SB)/8, $(0x0101010101010101 * byte) \
	DATA name<>+8(SB)/8, $(0x0101010101010101 * byte) \
	GLOBL name<>(SB), RODATA|NOPTR, $16

SIXTEEN(lower, 0x20)      // makes a letter small
SIXTEEN(letterUp, 5)      // moves 'z' to 127, the greatest of signed bytes
SIXTEEN(letterLeast, 101) // 'a' moved so, less one
SIXTEEN(digitUp, 70)      // moves '9' to 127
SIXTEEN(digitLeast, 117)  // '0' moved so, less one
SIXTEEN(apostrophe, 0x27)
SIXTEEN(less, 0x3c)
SIXTEEN(ampersand, 0x26)

// QUARTER classifies the sixteen bytes at off and puts their masks below those of
// the bytes behind them: words in AX, apostrophes in BX, stops in CX. A byte that is
// moved beyond 127 becomes negative, so that one signed comparison tests a range.
#define QUARTER(off) \
	MOVOU    off(SI), X0 \
	MOVO     X0, X1 \
	POR      X8, X1 \
	PADDB    X9, X1 \
	PCMPGTB  X10, X1 \
	MOVO     X0, X2 \
	PADDB    X11, X2 \
	PCMPGTB  X12, X2 \
	POR      X2, X1 \
	PMOVMSKB X1, R8 \
	MOVO     X0, X3 \
	PCMPEQB  X13, X3 \
	PMOVMSKB X3, R9 \
	MOVO     X0, X4 \
	PCMPEQB  X14, X4 \
	POR      X0, X4 \
	PCMPEQB  X7, X0 \
	POR      X0, X4 \
	PMOVMSKB X4, R10 \
	SHLQ     $16, AX \
	SHLQ     $16, BX \
	SHLQ     $16, CX \
	ORQ      R8, AX \
	ORQ      R9, BX \
	ORQ      R10, CX

// func readClasses(c *classes, block *[blockSize]byte)
TEXT ·readClasses(SB), NOSPLIT, $0-16
	MOVQ  c+0(FP), DI
	MOVQ  block+8(FP), SI
	MOVOU lower<>(SB), X8
	MOVOU letterUp<>(SB), X9
	MOVOU letterLeast<>(SB), X10
	MOVOU digitUp<>(SB), X11
	MOVOU digitLeast<>(SB), X12
	MOVOU apostrophe<>(SB), X13
	MOVOU less<>(SB), X14
	MOVOU ampersand<>(SB), X7
	XORL  AX, AX
	XORL  BX, BX
	XORL  CX, CX
	QUARTER(48)
	QUARTER(32)
	QUARTER(16)
	QUARTER(0)
	MOVQ  AX, classes_word(DI)
	MOVQ  BX, classes_apostrophe(DI)
	MOVQ  CX, classes_stop(DI)
	RET
