// Every limit that hostile or broken files meet in this room, in one place. They are far above the
// release, and low enough that no product of two or three of them leaves 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::checkpoint {

// Files.
inline constexpr uint64_t kMaxConfigBytes = 1 << 20;
inline constexpr uint64_t kMaxTokenizerBytes = 256 << 20;
inline constexpr uint64_t kMaxIndexBytes = 256 << 20;
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
inline constexpr size_t kMaxTensorsPerFile = 1'000'000;
inline constexpr size_t kMaxHeaderElements = 20'000'000;  // JSON values and keys of a header
inline constexpr size_t kMaxNameBytes = 512;
inline constexpr size_t kMaxListedErrors = 10;  // tensors named in one error

// Config fields.
inline constexpr int64_t kMaxVocab = 1 << 24;
inline constexpr int64_t kMaxPositions = int64_t{1} << 31;
inline constexpr int64_t kMaxHidden = 1 << 16;
inline constexpr int64_t kMaxLayers = 256;
inline constexpr int64_t kMaxDraftStages = 16;
inline constexpr int64_t kMaxHeads = 1024;
inline constexpr int64_t kMaxHeadDim = 4096;
inline constexpr int64_t kMaxExperts = 4096;
inline constexpr int64_t kMaxTensors = 1'000'000;  // of a config; the release has 96,085
inline constexpr int64_t kMaxTopk = 1 << 20;
inline constexpr int64_t kMaxStreams = 8;
inline constexpr int64_t kMaxSinkhorn = 1000;
inline constexpr int64_t kMaxNgram = 8;
inline constexpr int64_t kMaxEngramHeads = 64;
inline constexpr int64_t kMaxEngramVocab = int64_t{1} << 31;
inline constexpr int64_t kMaxDraftBlock = 64;
inline constexpr size_t kMaxListEntries = 1024;

}  // namespace thalweg::checkpoint
