#include "data/templates/chat_template.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/text.hpp"
#include "data/templates/evaluator.hpp"
#include "data/templates/lexer.hpp"
#include "data/templates/parser.hpp"
#include "data/templates/syntax.hpp"

namespace troupe::data {

chat_template::chat_template(std::string name, std::shared_ptr<const templates::syntax_tree> tree)
    : name_(std::move(name)), tree_(std::move(tree)) {}

core::result<chat_template> chat_template::parse(std::string name, std::string_view source) {
  TROUPE_ASSIGN(auto tree, templates::parse_template(name, source));
  return chat_template(std::move(name), std::make_shared<const templates::syntax_tree>(std::move(tree)));
}

bool chat_template::marks_generation() const { return tree_->marks_generation; }

core::result<rendered_chat> chat_template::render(const nlohmann::ordered_json& variables) const {
  const auto where = fmt::format("template '{}'", core::shown(name_));
  if (!variables.is_object()) return core::refused(where + ": wanted an object of variables");
  auto all = templates::value_of(variables);
  if (!all) return core::fail(all.error().in(where));
  templates::evaluator evaluator(*tree_, *std::move(all));
  auto text = evaluator.render();
  if (!text) {
    const auto at = evaluator.failed_at();
    if (!at) return core::fail(text.error().in(where));
    return core::fail(text.error().kind, templates::located(name_, *at, text.error().text));
  }
  rendered_chat out;
  out.text = *std::move(text);
  for (const auto& one : evaluator.generated()) out.generated.push_back({one.begin, one.end});
  return out;
}

}  // namespace troupe::data
