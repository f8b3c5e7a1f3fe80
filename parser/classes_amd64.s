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
THIRTYTWO(commaToDot, 0x02) // makes ',' a '.'
THIRTYTWO(dot, 0x2e)

// HALF classifies the bytes at off into four masks. A byte that is moved beyond
// 127 becomes negative, so that one signed comparison tests a range.
#define HALF(off, word, apostrophes, stop, digit, merge) \
	VMOVDQU   off(SI), Y0 \
	VPADDB    Y12, Y0, Y2 \
	VPCMPGTB  Y11, Y2, Y2 \
	VPMOVMSKB Y2, digit \
	merge(digit, DX) \
	VPOR      Y15, Y0, Y1 \
	VPADDB    Y14, Y1, Y1 \
	VPCMPGTB  Y13, Y1, Y1 \
	VPOR      Y2, Y1, Y1 \
	VPMOVMSKB Y1, word \
	merge(word, AX) \
	VPCMPEQB  Y10, Y0, Y3 \
	VPMOVMSKB Y3, apostrophes \
	merge(apostrophes, BX) \
	VPCMPEQB  Y9, Y0, Y4 \
	VPCMPEQB  Y8, Y0, Y5 \
	VPOR      Y0, Y4, Y4 \
	VPOR      Y5, Y4, Y4 \
	VPMOVMSKB Y4, stop \
	merge(stop, CX)

// HIGH moves the mask of the second half of a block to its place, and LOW adds that of the first.
#define HIGH(mask, whole) SHLQ $32, mask
#define LOW(mask, whole) ORQ mask, whole

// SEPARATORS finds the bytes at off that may stand between digits, but for apostrophes.
#define SEPARATORS(off, separator) \
	VMOVDQU   off(SI), Y0 \
	VPOR      commaToDot<>(SB), Y0, Y0 \
	VPCMPEQB  dot<>(SB), Y0, Y0 \
	VPMOVMSKB Y0, separator

// MIX adds the 16 bytes at off to a hash, as mix does.
#define MIX(off, sum) \
	MOVQ  off(SI), DX \
	MOVQ  off+8(SI), R8 \
	XORQ  sum, DX \
	XORQ  prime<>(SB), R8 \
	MULXQ R8, R8, sum \
	XORQ  R8, sum

DATA prime<>+0(SB)/8, $const_textPrime
GLOBL prime<>(SB), RODATA|NOPTR, $8

// func readBlocks(r *blockReader, src *byte, most int, hash bool) int
//
// R9, R10 and R11 are inside, joined and words; R13 and R14 are sum and other; R15 is the number of blocks before this
// one.
TEXT ·readBlocks(SB), NOSPLIT, $0-40
	MOVQ    r+0(FP), DI
	MOVQ    src+8(FP), SI
	VMOVDQU lower<>(SB), Y15
	VMOVDQU letterUp<>(SB), Y14
	VMOVDQU letterLeast<>(SB), Y13
	VMOVDQU digitUp<>(SB), Y12
	VMOVDQU digitLeast<>(SB), Y11
	VMOVDQU apostrophe<>(SB), Y10
	VMOVDQU less<>(SB), Y9
	VMOVDQU ampersand<>(SB), Y8
	MOVQ    blockReader_inside(DI), R9
	MOVQ    blockReader_joined(DI), R10
	MOVQ    blockReader_words(DI), R11
	MOVQ    blockReader_sum(DI), R13
	MOVQ    blockReader_other(DI), R14
	XORL    R15, R15

next:
	HALF(32, AX, BX, CX, DX, HIGH)
	HALF(0, R8, R8, R8, R8, LOW)

	// R12 is all bits before the first stop.
	LEAQ  -1(CX), R12
	ANDNQ R12, CX, R12
	ANDQ  R12, AX
	ANDQ  R12, DX
	JNZ   numbers

count:
	MOVQ    DX, blockReader_number(DI)(R15*8)
	LEAQ    (R9)(AX*2), R8                    // a letter or digit is before
	ANDQ    R8, BX                            // apostrophes that join
	LEAQ    (R10)(BX*2), R12
	ORQ     R8, R12
	ANDNQ   AX, R12, R8
	MOVQ    R8, blockReader_start(DI)(R15*8)
	POPCNTQ R8, R8
	ADDQ    R8, R11
	TESTQ   CX, CX
	JNZ     stopped
	MOVQ    AX, R9
	SHRQ    $63, R9
	MOVQ    BX, R10
	SHRQ    $63, R10
	INCQ    R15
	CMPB    hash+24(FP), $0
	JEQ     advance
	MIX(0, R13)
	MIX(16, R14)
	MIX(32, R13)
	MIX(48, R14)
	ADDQ    $64, blockReader_from(DI)

advance:
	ADDQ $64, SI
	CMPQ R15, most+16(FP)
	JLT  next
	SHLQ $6, R15
	JMP  done

numbers:
	// Single separators between digits belong to a number.
	MOVB $0, hash+24(FP)
	SEPARATORS(32, R12)
	SEPARATORS(0, R8)
	SHLQ $32, R12
	ORQ  R8, R12
	ORQ  BX, R12
	LEAQ (DX)(DX*1), R8
	ANDQ R8, R12
	MOVQ DX, R8
	SHRQ $1, R8
	ANDQ R8, R12
	ORQ  R12, DX
	ORQ  DX, blockReader_anyNumber(DI)
	JMP  count

stopped:
	SHLQ  $6, R15
	BSFQ  CX, CX
	ADDQ  CX, R15
	DECQ  CX                              // the last character before the stop
	JLT   done
	XORL  R9, R9
	BTQ   CX, AX
	ADCQ  $0, R9
	XORL  R10, R10
	BTQ   CX, BX
	ADCQ  $0, R10

done:
	MOVQ R9, blockReader_inside(DI)
	MOVQ R10, blockReader_joined(DI)
	MOVQ R11, blockReader_words(DI)
	MOVQ R13, blockReader_sum(DI)
	MOVQ R14, blockReader_other(DI)
	MOVQ R15, ret+32(FP)
	VZEROUPPER
	RET

// MIXMASKED adds the 16 bytes at off(BX) under the mask at off(R12) to a hash.
#define MIXMASKED(off, sum) \
	MOVQ  off(BX), DX \
	ANDQ  off(R12), DX \
	XORQ  sum, DX \
	MOVQ  off+8(BX), R14 \
	ANDQ  off+8(R12), R14 \
	XORQ  prime<>(SB), R14 \
	MULXQ R14, R14, sum \
	XORQ  R14, sum

DATA bit5<>+0(SB)/8, $0x2020202020202020
GLOBL bit5<>(SB), RODATA|NOPTR, $8

// func takeShort(t *textHash, block, from *byte, number uint64) (rest uint64, end int)
//
// R8 to R11 are the hashes of textHash. CX is number, BX where the words before it begin.
TEXT ·takeShort(SB), NOSPLIT, $0-48
	MOVQ t+0(FP), DI
	MOVQ block+8(FP), SI
	MOVQ from+16(FP), BX
	MOVQ number+24(FP), CX
	MOVQ textHash_blockReader+blockReader_sum(DI), R8
	MOVQ textHash_blockReader+blockReader_other(DI), R9
	MOVQ textHash_all(DI), R10
	MOVQ textHash_numbers(DI), R11

next:
	// DX is number with the bits of its first run 0 and the bit behind it 1, AX where that run begins, and R13 its
	// length.
	TZCNTQ CX, AX
	BLSIQ  CX, DX
	ADDQ   CX, DX
	TZCNTQ DX, R13
	CMPQ   R13, $63
	JGE    done
	SUBQ   AX, R13
	CMPQ   R13, $8
	JHI    done
	ADDQ   SI, AX
	MOVQ   AX, R14
	SUBQ   BX, R14     // length of the words before it
	CMPQ   R14, $32
	JHI    done
	LEAQ   (R13*8), R12
	BZHIQ  R12, (AX), R15
	ADDQ   R13, AX     // end

	// R12 is 0 if it has a separator, else -1.
	LEAQ  (R15)(R15*1), R12
	ANDNQ R15, R12, R12
	ANDQ  bit5<>(SB), R12
	BLSRQ R12, R12
	JNZ   done
	SBBQ  R12, R12
	ANDQ  DX, CX

	// R13 is 1 if the number counts.
	MOVL    $~(1<<1 | 1<<2 | 1<<4), DX
	SHRXL   R13, DX, DX
	MOVWLZX R15, R13
	ORL     $0x0200, R13
	CMPL    R13, $0x2e30
	SETNE   R13
	TESTQ   R12, R12
	CMOVQNE DX, R13
	ANDL    $1, R13

	// R15 becomes its hash.
	MOVQ  R15, DX
	XORQ  prime<>(SB), DX
	MULXQ prime<>(SB), DX, R15
	XORQ  DX, R15
	MOVQ  textHash_known(DI), R12
	TESTQ R12, R12
	JZ    words

compare:
	CMPQ R15, (textHash_inURL-8)(DI)(R12*8)
	JEQ  known
	DECQ R12
	JNZ  compare

words:
	CMPQ R14, $1
	JHI  mix
	JLT  add
	CMPB (BX), $0x20
	JLS  add

mix:
	LEAQ ·textMask+32(SB), R12
	SUBQ R14, R12
	MIXMASKED(0, R8)
	MIXMASKED(16, R9)

add:
	MOVQ    AX, BX
	MOVQ    R15, R14
	XORQ    prime<>(SB), R14
	MOVQ    R15, DX
	XORQ    R10, DX
	MULXQ   R14, R12, R10
	XORQ    R12, R10
	MOVQ    R15, DX
	XORQ    R11, DX
	MULXQ   R14, R12, R14
	XORQ    R12, R14
	TESTQ   R13, R13
	CMOVQNE R14, R11
	TESTQ   CX, CX
	JNZ     next

done:
	MOVQ R8, textHash_blockReader+blockReader_sum(DI)
	MOVQ R9, textHash_blockReader+blockReader_other(DI)
	MOVQ R10, textHash_all(DI)
	MOVQ R11, textHash_numbers(DI)
	MOVQ CX, rest+32(FP)
	SUBQ SI, BX
	MOVQ BX, end+40(FP)
	RET

known:
	XORL R13, R13
	JMP  words
