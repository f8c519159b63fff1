// The files of this room: a JSON object with a format, a version, some integers, and "layers", one
// list of integers for each layer. Internal to the room.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace thalweg::parallel {

struct TableField {
  std::string_view name;
  int64_t least = 0;
  int64_t most = 0;
  int64_t* value = nullptr;
};

// Every field must be there and nothing else; layers hold integers from 0 to `most` each, at most
// `width` a layer and kMostLayers layers. `what` names the document in messages.
Result<std::vector<std::vector<int64_t>>> ParseTable(std::string_view text, std::string_view what,
                                                     std::string_view format,
                                                     const std::vector<TableField>& fields,
                                                     int64_t width, int64_t most);

// One layer a line.
std::string TableToJson(std::string_view format,
                        const std::vector<std::pair<std::string_view, int64_t>>& fields,
                        const std::vector<std::vector<int64_t>>& layers);

}  // namespace thalweg::parallel
