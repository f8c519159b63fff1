#include "grammar/schema_list.h"

#include <fmt/format.h>

#include <deque>
#include <map>

namespace thalweg::grammar {
namespace {

class ListWriter {
 public:
  ListWriter(const ListSpec& spec, const ListFrame& frame, int64_t most_states,
             SchemaContext* context)
      : spec_(spec), frame_(frame), most_states_(most_states), context_(*context) {}

  Status Write(int32_t rule) {
    if (spec_.accepts(spec_.start)) {
      context_.rules.AddAlternative(rule, {Rules::Regex(frame_.empty)});
    }
    TW_TRY(WriteMoves(spec_.start, -1));
    while (!open_.empty()) {
      const ListState state = std::move(open_.front());
      open_.pop_front();
      const int32_t reached = rules_.at(state);
      TW_TRY(WriteMoves(state, reached));
      if (!spec_.accepts(state)) continue;
      context_.rules.AddAlternative(
          rule, {Rules::Regex(frame_.open), Rules::Of(reached), Rules::Regex(frame_.close)});
    }
    return {};
  }

 private:
  Result<int32_t> RuleOf(const ListState& state) {
    const auto [entry, fresh] = rules_.try_emplace(state, 0);
    if (!fresh) return entry->second;
    if (static_cast<int64_t>(rules_.size()) > most_states_) {
      return base::Unsupported(fmt::format("needs more than {} states", most_states_));
    }
    entry->second = context_.rules.NewRule("list");
    open_.push_back(state);
    return entry->second;
  }

  // `reached`: the rule of `state`, or -1 for the start.
  Status WriteMoves(const ListState& state, int32_t reached) {
    TW_TRY(context_.CheckLimits());
    if (written_ > context_.limits.symbols) return base::Unsupported("needs too many rules");
    TW_ASSIGN(const std::vector<ListMove> moves, spec_.moves(state));
    for (const ListMove& move : moves) {
      if (move.element.value == Rules::Regex(kNothing)) continue;
      TW_ASSIGN(const int32_t target, RuleOf(move.to));
      std::vector<Symbol> symbols;
      if (reached >= 0) symbols.push_back(Rules::Of(reached));
      AppendElement(move.element, frame_, reached < 0, &context_.regexes, &symbols);
      written_ += static_cast<int64_t>(symbols.size());
      context_.rules.AddAlternative(target, std::move(symbols));
    }
    return {};
  }

  const ListSpec& spec_;
  const ListFrame& frame_;
  const int64_t most_states_;
  SchemaContext& context_;
  std::map<ListState, int32_t> rules_;
  std::deque<ListState> open_;
  int64_t written_ = 0;  // symbols
};

}  // namespace

void AppendElement(const ListElement& element, const ListFrame& frame, bool first,
                   RegexArena* regexes, std::vector<Symbol>* symbols) {
  const RegexId lead = first ? element.lead : regexes->Concat(frame.separator, element.lead);
  if (lead != kEmptyString) symbols->push_back(Rules::Regex(lead));
  symbols->push_back(element.value);
}

Status AddList(const ListSpec& spec, const ListFrame& frame, int64_t most_states, int32_t rule,
               SchemaContext* context) {
  return ListWriter(spec, frame, most_states, context).Write(rule);
}

}  // namespace thalweg::grammar
