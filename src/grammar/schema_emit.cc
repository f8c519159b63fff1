#include "grammar/schema_emit.h"

#include <array>

#include "grammar/schema_number.h"
#include "grammar/schema_text.h"

namespace thalweg::grammar {

SchemaEmitter::SchemaEmitter(SchemaContext* context, SchemaExpander* expander)
    : context_(*context), expander_(*expander), rules_(context->rules), regexes_(context->regexes) {
  const JsonPunctuation text = MakePunctuation(context->options.whitespace, &regexes_);
  quote_ = regexes_.Literal("\"");
  colon_ = text.colon;
  object_frame_ = text.object;
  array_frame_ = text.array;
}

Result<Symbol> SchemaEmitter::SymbolOf(const DemandSet& demands) {
  const auto known = known_.find(demands);
  if (known != known_.end()) return known->second;
  TW_TRY(context_.CheckLimits());
  TW_ASSIGN(const std::vector<Shape>* shapes, expander_.Expand(demands));
  std::vector<Symbol> choices;
  for (const Shape& shape : *shapes) {
    TW_ASSIGN(const RegexId scalars, ScalarsOf(shape));
    choices.push_back(Rules::Regex(scalars));
    if ((shape.types & kArrayType) != 0) choices.push_back(ArraySymbol(shape.arrays));
    if ((shape.types & kObjectType) != 0) choices.push_back(ObjectSymbol(shape.objects));
  }
  const Symbol symbol = rules_.Choice(choices, "value");
  known_[demands] = symbol;
  return symbol;
}

Result<RegexId> SchemaEmitter::ScalarsOf(const Shape& shape) {
  std::vector<RegexId> texts;
  if ((shape.types & kNullType) != 0) texts.push_back(regexes_.Literal("null"));
  if ((shape.types & kFalseType) != 0) texts.push_back(regexes_.Literal("false"));
  if ((shape.types & kTrueType) != 0) texts.push_back(regexes_.Literal("true"));
  if ((shape.types & kStringType) != 0) {
    const RegexId inside =
        shape.strings == kAnything ? context_.languages.AnyText() : shape.strings;
    texts.push_back(regexes_.Concat(std::array{quote_, inside, quote_}));
  }
  if ((shape.types & kNumberType) != 0) {
    TW_ASSIGN(texts.emplace_back(), NumbersOf(shape));
  }
  return regexes_.Either(texts);
}

Result<RegexId> SchemaEmitter::NumbersOf(const Shape& shape) {
  const TypeSet types = shape.types & kNumberType;
  if (types == kNumberType || (types == kIntegerType && shape.integral)) {
    return shape.numbers == kAnything ? NumberText(false, &context_) : shape.numbers;
  }
  TW_ASSIGN(RegexId kind, NumberText(true, &context_));
  if (types == kFractionType) kind = OtherNumbers(kind, &regexes_);
  return regexes_.Both(kind, shape.numbers);
}

Symbol SchemaEmitter::ObjectSymbol(const SchemaList& schemas) {
  const auto [entry, fresh] = objects_.try_emplace(schemas, 0);
  if (fresh) {
    entry->second = rules_.NewRule("object");
    pending_.push_back({true, &entry->first, entry->second});
  }
  return Rules::Of(entry->second);
}

Symbol SchemaEmitter::ArraySymbol(const SchemaList& schemas) {
  const auto [entry, fresh] = arrays_.try_emplace(schemas, 0);
  if (fresh) {
    entry->second = rules_.NewRule("array");
    pending_.push_back({false, &entry->first, entry->second});
  }
  return Rules::Of(entry->second);
}

Status SchemaEmitter::Finish() {
  while (!pending_.empty()) {
    const Pending next = pending_.front();
    pending_.pop_front();
    TW_TRY(context_.CheckLimits());
    TW_TRY(next.object ? WriteObject(*next.schemas, next.rule)
                       : WriteArray(*next.schemas, next.rule));
  }
  return {};
}

// Strings and numbers as they may be written; structures do not come here.
Result<RegexId> SchemaEmitter::ValueText(const base::Json& value, const std::string& path) {
  if (value.is_number()) return NumberEqualTo(value, path, &context_);
  if (!value.is_string()) return regexes_.Literal(value.dump());
  const RegexId inside = context_.languages.Text(value.get_ref<const std::string&>());
  return regexes_.Concat(std::array{quote_, inside, quote_});
}

}  // namespace thalweg::grammar
