// The check at the start: all ranks run the same program with the same options on the same
// checkpoint.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace thalweg::comm {

// What must be equal everywhere: name ("version", "checkpoint", "option --block-size") and value.
// The order is the caller's and counts.
using AgreedFields = std::vector<std::pair<std::string, std::string>>;

// ok when every rank calls this with the same fields; otherwise every rank gets an error that lists
// each field that differs, its values, and the ranks that have them. One exchange of 32 bytes when
// they agree. Fields of one rank take kMostAgreedBytes at most.
Status Agree(Communicator* communicator, const AgreedFields& fields);

// Fields as bytes between ranks, which may be of different versions: JSON.
std::string EncodeFields(const AgreedFields& fields);
Result<AgreedFields> DecodeFields(std::string_view bytes, std::string_view what);

// The message of Agree for the fields of all ranks; "" when they are equal.
std::string DescribeDifferences(const std::vector<AgreedFields>& by_rank);

}  // namespace thalweg::comm
