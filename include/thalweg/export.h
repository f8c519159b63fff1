// Marks what libthalweg.so hands out; everything else in it is hidden.
#pragma once

#if defined(__GNUC__)
#define THALWEG_API __attribute__((visibility("default")))
#else
#define THALWEG_API
#endif
