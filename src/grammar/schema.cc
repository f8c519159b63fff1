#include "grammar/schema.h"

#include "grammar/schema_document.h"
#include "grammar/schema_emit.h"
#include "grammar/schema_parse.h"

namespace thalweg::grammar {
namespace {

// `demands_of` gives what the text must meet, having filled the table of schemas.
template <typename DemandsOf>
Result<Symbol> Emit(SchemaContext* context, DemandsOf demands_of) {
  TW_ASSIGN(const DemandSet demands, demands_of());
  SchemaExpander expander(context);
  TW_TRY(expander.CheckCycles());
  SchemaEmitter emitter(context, &expander);
  TW_ASSIGN(const Symbol symbol, emitter.SymbolOf(demands));
  TW_TRY(emitter.Finish());
  if (context->rules.SymbolCount() > context->limits.symbols) {
    return base::OutOfRange("schema: too large; split it, or make its counts smaller");
  }
  return symbol;
}

}  // namespace

Result<Symbol> AddSchema(const base::Json& schema, const SchemaOptions& options,
                         const Limits& limits, Rules* rules) {
  SchemaContext context(options, limits, rules);
  TW_ASSIGN(const SchemaDocument document, SchemaDocument::Scan(schema, limits));
  SchemaParser parser(document, &context);
  return Emit(&context, [&]() -> Result<DemandSet> {
    TW_ASSIGN(const Demand root, parser.Parse());
    return MakeDemandSet({root});
  });
}

Result<Rules> CompileSchema(const base::Json& schema, const SchemaOptions& options,
                            const Limits& limits) {
  Rules rules;
  TW_ASSIGN(const Symbol symbol, AddSchema(schema, options, limits, &rules));
  const int32_t start = rules.NewRule("start");
  rules.AddAlternative(start, {symbol});
  rules.set_start(start);
  return rules;
}

Result<Symbol> AddAnyJson(const SchemaOptions& options, Rules* rules) {
  SchemaContext context(options, {}, rules);
  return Emit(&context, [&]() -> Result<DemandSet> { return DemandSet(); });
}

Result<Symbol> AddAnyObject(const SchemaOptions& options, Rules* rules) {
  SchemaContext context(options, {}, rules);
  return Emit(&context, [&]() -> Result<DemandSet> {
    Schema schema;
    schema.types = kObjectType;
    return MakeDemandSet({context.table.Add(std::move(schema))});
  });
}

}  // namespace thalweg::grammar
