// The points of a layer (model/probe.h) in the order in which they are made, for reports that name
// the first one that is wrong.
#pragma once

#include <string>
#include <string_view>

namespace thalweg::tools {

// 0, 1, 2, ... in forward order; unknown names come last.
int ForwardOrder(std::string_view point);
// Whether a probe sees a point of this name.
bool IsForwardPoint(std::string_view point);
// All of them, in order, separated by commas.
std::string ForwardPointNames();

}  // namespace thalweg::tools
