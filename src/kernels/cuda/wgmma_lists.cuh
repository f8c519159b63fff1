// The accumulators of one warpgroup instruction as text and operands of inline assembly: 4 for each
// 8 columns. The compiler wants each by its own name, so the lists are macros, and stand here once.
// Included by the headers that issue these instructions alone.
#pragma once

#define THALWEG_NAMES_4 "%0, %1, %2, %3"
#define THALWEG_NAMES_8 \
  THALWEG_NAMES_4       \
  ", %4, %5, %6, %7"
#define THALWEG_NAMES_12 \
  THALWEG_NAMES_8        \
  ", %8, %9, %10, %11"
#define THALWEG_NAMES_16 \
  THALWEG_NAMES_12       \
  ", %12, %13, %14, %15"
#define THALWEG_NAMES_20 \
  THALWEG_NAMES_16       \
  ", %16, %17, %18, %19"
#define THALWEG_NAMES_24 \
  THALWEG_NAMES_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23"
#define THALWEG_NAMES_32 \
  THALWEG_NAMES_24       \
  ", %24, %25, %26, %27, %28, %29, %30, %31"
#define THALWEG_NAMES_40 \
  THALWEG_NAMES_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39"
#define THALWEG_NAMES_48 \
  THALWEG_NAMES_40       \
  ", %40, %41, %42, %43, %44, %45, %46, %47"
#define THALWEG_NAMES_56 \
  THALWEG_NAMES_48       \
  ", %48, %49, %50, %51, %52, %53, %54, %55"
#define THALWEG_NAMES_64 \
  THALWEG_NAMES_56       \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define THALWEG_NAMES_80 \
  THALWEG_NAMES_64       \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"

#define THALWEG_SUMS_4_FROM(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define THALWEG_SUMS_8_FROM(i) THALWEG_SUMS_4_FROM(i), THALWEG_SUMS_4_FROM(i + 4)
#define THALWEG_SUMS_4 THALWEG_SUMS_4_FROM(0)
#define THALWEG_SUMS_8 THALWEG_SUMS_8_FROM(0)
#define THALWEG_SUMS_12 THALWEG_SUMS_8, THALWEG_SUMS_4_FROM(8)
#define THALWEG_SUMS_16 THALWEG_SUMS_8, THALWEG_SUMS_8_FROM(8)
#define THALWEG_SUMS_20 THALWEG_SUMS_16, THALWEG_SUMS_4_FROM(16)
#define THALWEG_SUMS_24 THALWEG_SUMS_16, THALWEG_SUMS_8_FROM(16)
#define THALWEG_SUMS_32 THALWEG_SUMS_24, THALWEG_SUMS_8_FROM(24)
#define THALWEG_SUMS_40 THALWEG_SUMS_32, THALWEG_SUMS_8_FROM(32)
#define THALWEG_SUMS_48 THALWEG_SUMS_40, THALWEG_SUMS_8_FROM(40)
#define THALWEG_SUMS_56 THALWEG_SUMS_48, THALWEG_SUMS_8_FROM(48)
#define THALWEG_SUMS_64 THALWEG_SUMS_56, THALWEG_SUMS_8_FROM(56)
#define THALWEG_SUMS_80 THALWEG_SUMS_64, THALWEG_SUMS_8_FROM(64), THALWEG_SUMS_8_FROM(72)
