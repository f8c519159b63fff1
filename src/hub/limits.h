// Limits on what a server or a cache may say.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::hub {

inline constexpr size_t kMaxRepoNameBytes = 96;  // the Hub's own limit
inline constexpr size_t kMaxRevisionBytes = 200;
inline constexpr size_t kMaxFileNameBytes = 512;
inline constexpr size_t kMaxFileNamePartBytes = 200;  // a part is a file name on our disk
inline constexpr size_t kMaxTokenBytes = 4096;
inline constexpr size_t kMaxEndpointBytes = 1024;

inline constexpr uint64_t kMaxInfoBytes = 64u << 20;   // the answer about a repository
inline constexpr uint64_t kMaxIndexBytes = 64u << 20;  // model.safetensors.index.json
inline constexpr size_t kMaxFiles = 100'000;
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 50;
inline constexpr uint64_t kMaxTotalBytes = uint64_t{1} << 52;

inline constexpr size_t kMaxHeaderValueBytes = 4096;  // longer ones are ignored
inline constexpr size_t kMaxErrorBodyBytes = 4096;    // kept of an error's text
inline constexpr long kMaxRedirects = 5;
inline constexpr int kMaxJobs = 64;

}  // namespace thalweg::hub
