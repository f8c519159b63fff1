#include "grammar/rules.h"

#include <utility>

namespace thalweg::grammar {

int32_t Rules::NewRule(std::string name) {
  rules_.push_back({std::move(name), {}});
  return static_cast<int32_t>(rules_.size()) - 1;
}

void Rules::AddAlternative(int32_t rule, std::vector<Symbol> symbols) {
  rules_[static_cast<size_t>(rule)].alternatives.push_back(std::move(symbols));
}

}  // namespace thalweg::grammar
