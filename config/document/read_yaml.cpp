// Reads YAML into nodes through yaml-cpp's events. yaml-cpp's own tree is not used, because it accepts duplicate names
// and expands aliases before they can be counted. A limit that is exceeded ends the parser by an exception from within
// an event.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <streambuf>

#include "config/document/tree_builder.hpp"
#include "core/text.hpp"

namespace troupe::config {
namespace {

class builder_events final : public YAML::EventHandler {
 public:
  explicit builder_events(tree_builder& builder) : builder_(builder) {}

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.scalar(node_kind::null, "", at(mark), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override { builder_.alias(anchor, at(mark)); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (tag != "?" && tag != "!" && !tag.empty()) refuse_tag(mark, tag);
    builder_.scalar(tag == "!" ? node_kind::quoted : node_kind::plain, value, at(mark), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(node_kind::sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { builder_.close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(node_kind::mapping, mark, tag, anchor);
  }
  void OnMapEnd() override { builder_.close(); }

  [[nodiscard]] place at(const YAML::Mark& mark) const { return builder_.at(mark.line + 1, mark.column + 1); }

 private:
  void open(node_kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (tag != "?" && tag != "!" && !tag.empty()) refuse_tag(mark, tag);
    builder_.open(kind, at(mark), anchor);
  }
  [[noreturn]] void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    throw refusal{at(mark), "wanted a value without a tag, got the tag " + core::shown(tag, 60)};
  }
  tree_builder& builder_;
};

/// A stream buffer that reads from a text in memory that it does not own.
class text_buffer final : public std::streambuf {
 public:
  explicit text_buffer(std::string_view text) {
    // Streambuf requires a pointer that is not const, but only reads through it.
    char* first = const_cast<char*>(text.data());
    setg(first, first, first + text.size());
  }
};

/// Returns the refusal of a text for which yaml-cpp would use much memory before its first event, because it holds all
/// tokens of a bracket that might turn out to be a mapping's key: brackets nested deeper than allowed, or very many
/// values in them. Block scalars (`|`, `>`) are not recognised: brackets inside them count as well, which is harmless
/// for texts that close most of their brackets.
std::optional<refusal> tangled(std::string_view text, uint32_t source) {
  place where{source, 1, 1};
  int depth = 0;
  size_t values = 0;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i, ++where.column) {
    const char c = text[i];
    if (c == '\n') {
      where = {source, where.line + 1, 0};
      if (quote == '\'') quote = 0;  // without a second ' in its line, a ' is probably an apostrophe in plain text
    } else if (quote != 0) {
      if (c == '\\' && quote == '"') ++i, ++where.column;
      if (c == quote) quote = 0;
    } else if (c == '#' && (i == 0 || core::is_ascii_blank(text[i - 1]))) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest_nesting)
        return refusal{where, fmt::format("wanted at most {} levels of nesting", deepest_nesting)};
      ++values;
    } else if (c == ']' || c == '}') {
      depth = std::max(0, depth - 1);
    } else if (c == ',') {
      ++values;
    }
    if (values > most_nodes) return refusal{where, fmt::format("wanted at most {} values", most_nodes)};
  }
  return std::nullopt;
}

}  // namespace

document read_yaml(std::string_view text, uint32_t source) {
  tree_builder builder(source, /*merges=*/true);
  builder_events events(builder);
  try {
    if (const auto reason = unreadable(text, source)) throw *reason;
    if (const auto reason = tangled(text, source)) throw *reason;
    text_buffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(events))
      throw refusal{{source, 1, 1}, "wanted a mapping of keys to values, got nothing"};
    document read = builder.take();
    tree_builder second(source, /*merges=*/true);
    builder_events rest(second);
    if (parser.HandleNextDocument(rest)) throw refusal{second.take().root->at, "wanted one document, got a second one"};
    return read;
  } catch (const refusal& r) {
    return {nullptr, {{r.at, "", r.text}}};
  } catch (const YAML::Exception& e) {
    return {nullptr, {{events.at(e.mark), "", "not readable as YAML: " + e.msg}}};
  }
}

}  // namespace troupe::config
