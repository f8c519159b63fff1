// Lists with separators, as the members of an object and the items of an array are, to rules.
//
// Where a list can be is a state; a state is a rule whose language is every text that leads to it
// from the beginning, so that rules are left-recursive and what follows an element does not depend
// on how it was reached.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "grammar/schema_context.h"

namespace thalweg::grammar {

struct ListElement {
  RegexId lead = kEmptyString;  // the key and what follows it
  Symbol value = {};
};

// What a state counts and remembers; the meaning is its user's.
using ListState = std::vector<int64_t>;

struct ListMove {
  ListElement element;
  ListState to;
};

struct ListSpec {
  ListState start = {};  // nothing written yet; no move leads back to it
  std::function<Result<std::vector<ListMove>>(const ListState&)> moves;
  std::function<bool(const ListState&)> accepts;
};

// The text around and between the elements.
struct ListFrame {
  RegexId open = kNothing;       // with what may follow it
  RegexId separator = kNothing;  // with what may surround it
  RegexId close = kNothing;      // with what may precede it
  RegexId empty = kNothing;      // the list without elements
};

// Symbols of the element, after a separator unless it is the first.
void AppendElement(const ListElement& element, const ListFrame& frame, bool first,
                   RegexArena* regexes, std::vector<Symbol>* symbols);
// Adds to `rule` what the spec describes. An error when it has more than `most_states` states.
Status AddList(const ListSpec& spec, const ListFrame& frame, int64_t most_states, int32_t rule,
               SchemaContext* context);

}  // namespace thalweg::grammar
