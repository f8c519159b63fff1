// Byte counts for people.
#pragma once

#include <cstdint>
#include <string>

namespace thalweg::hub {

// "475.1 GiB", "28.5 MiB", "512 bytes".
std::string SizeText(uint64_t bytes);

}  // namespace thalweg::hub
