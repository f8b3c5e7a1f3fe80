#include "go_asm.h"
#include "textflag.h"

// Thirty-two times the same byte.
#define THIRTYTWO(name, byte) \
	DATA name<>+0(SB)/8, $(0x0101010101010101 * byte) \
	DATA name<>+8(SB)/8, $(0x0101010101010101 * byte) \
	DATA name<>+16(SB)/8, $(0x0101010101010101 * byte) \
	DATA name<>+24(SB)/8, $(0x0101010101010101 * byte) \
	GLOBL name<>(SB), RODATA|NOPTR, $32

THIRTYTWO(lower, 0x20)      // makes a letter small
THIRTYTWO(letterUp, 5)      // moves 'z' to 127, the greatest of signed bytes
THIRTYTWO(letterLeast, 101) // 'a' moved so, less one
THIRTYTWO(digitUp, 70)      // moves '9' to 127
THIRTYTWO(digitLeast, 117)  // '0' moved so, less one
THIRTYTWO(apostrophe, 0x27)
THIRTYTWO(less, 0x3c)
THIRTYTWO(ampersand, 0x26)

// HALF classifies the bytes at off into three masks. A byte that is moved beyond
// 127 becomes negative, so that one signed comparison tests a range.
#define HALF(off, word, apostrophes, stop) \
	VMOVDQU   off(SI), Y0 \
	VPOR      lower<>(SB), Y0, Y1 \
	VPADDB    letterUp<>(SB), Y1, Y1 \
	VPCMPGTB  letterLeast<>(SB), Y1, Y1 \
	VPADDB    digitUp<>(SB), Y0, Y2 \
	VPCMPGTB  digitLeast<>(SB), Y2, Y2 \
	VPOR      Y2, Y1, Y1 \
	VPMOVMSKB Y1, word \
	VPCMPEQB  apostrophe<>(SB), Y0, Y3 \
	VPMOVMSKB Y3, apostrophes \
	VPCMPEQB  less<>(SB), Y0, Y4 \
	VPCMPEQB  ampersand<>(SB), Y0, Y5 \
	VPOR      Y0, Y4, Y4 \
	VPOR      Y5, Y4, Y4 \
	VPMOVMSKB Y4, stop

// func readClasses(c *classes, block *[blockSize]byte)
TEXT ·readClasses(SB), NOSPLIT, $0-16
	MOVQ c+0(FP), DI
	MOVQ block+8(FP), SI
	HALF(32, AX, BX, CX)
	HALF(0, R8, R9, R10)
	SHLQ $32, AX
	SHLQ $32, BX
	SHLQ $32, CX
	ORQ  R8, AX
	ORQ  R9, BX
	ORQ  R10, CX
	MOVQ AX, classes_word(DI)
	MOVQ BX, classes_apostrophe(DI)
	MOVQ CX, classes_stop(DI)
	VZEROUPPER
	RET
