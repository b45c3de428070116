#include "data/templates/parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "data/templates/filters.hpp"
#include "data/templates/lexer.hpp"
#include "data/templates/methods.hpp"
#include "data/templates/names.hpp"
#include "data/templates/tests.hpp"

namespace troupe::data::templates {
namespace {

using expression_kind = expression::kind;
using statement_kind = statement::kind;
using token_kind = token::kind;

/// Statements of Jinja that are refused, since chat templates do not use them.
constexpr std::array<std::string_view, 7> refused_statements{"block",  "extends",    "include", "from",
                                                             "import", "autoescape", "do"};

/// Parses one template from its tokens.
class parser {
 public:
  parser(std::string_view name, std::vector<token> tokens) : name_(name), tokens_(std::move(tokens)) {}

  core::result<syntax_tree> run() {
    syntax_tree out;
    TROUPE_ASSIGN(out.body, statements({}));
    out.marks_generation = marks_generation_;
    return out;
  }

 private:
  [[nodiscard]] const token& now() const { return tokens_[at_]; }
  [[nodiscard]] const token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void skip() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
  [[nodiscard]] bool is(token_kind kind) const { return now().is == kind; }
  [[nodiscard]] bool is_symbol(std::string_view word) const { return is(token_kind::symbol) && now().word == word; }
  [[nodiscard]] bool is_name(std::string_view word) const { return is(token_kind::name) && now().word == word; }
  bool take_symbol(std::string_view word) {
    const bool found = is_symbol(word);
    if (found) skip();
    return found;
  }
  bool take_name(std::string_view word) {
    const bool found = is_name(word);
    if (found) skip();
    return found;
  }

  [[nodiscard]] tl::unexpected<core::error> refused(position at, std::string_view what) const {
    return core::refused(located(name_, at, what));
  }

  /// Returns the current token for a message.
  [[nodiscard]] std::string shown_token() const {
    switch (now().is) {
      case token_kind::data:
        return "text";
      case token_kind::block_begin:
        return "'{%'";
      case token_kind::block_end:
        return "'%}'";
      case token_kind::variable_begin:
        return "'{{'";
      case token_kind::variable_end:
        return "'}}'";
      case token_kind::number:
        return "a number";
      case token_kind::string:
        return "a text";
      case token_kind::name:
      case token_kind::symbol:
        return core::in_quotes(core::shown(now().word));
      case token_kind::end:
        break;
    }
    return "the end of the template";
  }

  [[nodiscard]] tl::unexpected<core::error> wanted(std::string_view what) const {
    return refused(now().at, fmt::format("wanted {}, got {}", what, shown_token()));
  }

  core::result<void> expect_symbol(std::string_view word) {
    if (!take_symbol(word)) return wanted(core::in_quotes(word));
    return {};
  }
  core::result<void> expect(token_kind kind, std::string_view what) {
    if (!is(kind)) return wanted(what);
    skip();
    return {};
  }
  core::result<std::string> expect_name(std::string_view what) {
    if (!is(token_kind::name)) return wanted(what);
    std::string out = now().word;
    skip();
    return out;
  }

  /// Counts nested parts while it exists.
  class nesting {
   public:
    explicit nesting(uint32_t& depth) : depth_(depth) { ++depth_; }
    ~nesting() { --depth_; }
    nesting(const nesting&) = delete;
    nesting& operator=(const nesting&) = delete;

   private:
    uint32_t& depth_;
  };

  core::result<void> check_depth(uint32_t depth) const {
    if (depth <= deepest_syntax) return {};
    return refused(now().at, fmt::format("parts are nested more than {} deep", deepest_syntax));
  }

  /// Returns an expression of these parts. Fails if it is nested too deep.
  core::result<expression> made(expression_kind kind, position at, std::vector<expression> parts,
                                std::string word = {}) const {
    expression out;
    out.is = kind;
    out.at = at;
    out.word = std::move(word);
    for (const auto& part : parts) out.depth = std::max(out.depth, part.depth + 1);
    out.parts = std::move(parts);
    TROUPE_TRY(check_depth(out.depth));
    return out;
  }

  core::result<expression> made(expression_kind kind, position at, expression left, expression right,
                                std::string word = {}) const {
    std::vector<expression> parts;
    parts.push_back(std::move(left));
    parts.push_back(std::move(right));
    return made(kind, at, std::move(parts), std::move(word));
  }

  static expression constant(position at, value x) {
    expression out;
    out.at = at;
    out.constant = std::move(x);
    return out;
  }

  static expression name_of(position at, std::string word) {
    expression out;
    out.is = expression_kind::name;
    out.at = at;
    out.word = std::move(word);
    return out;
  }

  // Expressions.

  core::result<expression> any_expression(bool with_condition = true) {
    const nesting one(nested_);
    TROUPE_TRY(check_depth(nested_));
    const position at = now().at;
    TROUPE_ASSIGN(auto out, disjunction());
    while (with_condition && take_name("if")) {
      std::vector<expression> parts;
      TROUPE_ASSIGN(auto test, disjunction());
      parts.push_back(std::move(test));
      parts.push_back(std::move(out));
      if (take_name("else")) {
        TROUPE_ASSIGN(auto otherwise, any_expression());
        parts.push_back(std::move(otherwise));
      }
      TROUPE_ASSIGN(out, made(expression_kind::condition, at, std::move(parts)));
    }
    return out;
  }

  core::result<expression> disjunction() {
    const position at = now().at;
    TROUPE_ASSIGN(auto out, conjunction());
    while (take_name("or")) {
      TROUPE_ASSIGN(auto right, conjunction());
      TROUPE_ASSIGN(out, made(expression_kind::any_of, at, std::move(out), std::move(right)));
    }
    return out;
  }

  core::result<expression> conjunction() {
    const position at = now().at;
    TROUPE_ASSIGN(auto out, negation());
    while (take_name("and")) {
      TROUPE_ASSIGN(auto right, negation());
      TROUPE_ASSIGN(out, made(expression_kind::all_of, at, std::move(out), std::move(right)));
    }
    return out;
  }

  core::result<expression> negation() {
    if (!is_name("not")) return comparison();
    const nesting one(nested_);
    TROUPE_TRY(check_depth(nested_));
    const position at = now().at;
    skip();
    TROUPE_ASSIGN(auto operand, negation());
    std::vector<expression> parts;
    parts.push_back(std::move(operand));
    return made(expression_kind::negation, at, std::move(parts));
  }

  /// Removes a comparison's operator from the front and returns it; empty if there is none.
  std::string take_comparison() {
    for (const std::string_view one : {"==", "!=", "<", "<=", ">", ">="})
      if (take_symbol(one)) return std::string(one);
    if (take_name("in")) return "in";
    if (is_name("not") && after().is == token_kind::name && after().word == "in") {
      skip();
      skip();
      return "not in";
    }
    return {};
  }

  core::result<expression> comparison() {
    const position at = now().at;
    TROUPE_ASSIGN(auto left, sum());
    std::vector<expression> parts;
    std::vector<std::string> words;
    parts.push_back(std::move(left));
    for (std::string word = take_comparison(); !word.empty(); word = take_comparison()) {
      TROUPE_ASSIGN(auto right, sum());
      parts.push_back(std::move(right));
      words.push_back(std::move(word));
    }
    if (words.empty()) return std::move(parts[0]);
    TROUPE_ASSIGN(auto out, made(expression_kind::compare, at, std::move(parts)));
    out.words = std::move(words);
    return out;
  }

  /// Removes one of these symbols from the front and returns it; empty if there is none.
  std::string take_symbol_of(std::initializer_list<std::string_view> words) {
    for (const auto one : words)
      if (take_symbol(one)) return std::string(one);
    return {};
  }

  core::result<expression> sum() {
    const position at = now().at;
    TROUPE_ASSIGN(auto out, concatenation());
    for (std::string word = take_symbol_of({"+", "-"}); !word.empty(); word = take_symbol_of({"+", "-"})) {
      TROUPE_ASSIGN(auto right, concatenation());
      TROUPE_ASSIGN(out, made(expression_kind::binary, at, std::move(out), std::move(right), std::move(word)));
    }
    return out;
  }

  core::result<expression> concatenation() {
    const position at = now().at;
    std::vector<expression> parts;
    do {
      TROUPE_ASSIGN(auto part, product());
      parts.push_back(std::move(part));
    } while (take_symbol("~"));
    if (parts.size() == 1) return std::move(parts[0]);
    return made(expression_kind::concat, at, std::move(parts));
  }

  core::result<expression> product() {
    const position at = now().at;
    TROUPE_ASSIGN(auto out, power());
    for (std::string word = take_symbol_of({"*", "/", "//", "%"}); !word.empty();
         word = take_symbol_of({"*", "/", "//", "%"})) {
      TROUPE_ASSIGN(auto right, power());
      TROUPE_ASSIGN(out, made(expression_kind::binary, at, std::move(out), std::move(right), std::move(word)));
    }
    return out;
  }

  core::result<expression> power() {
    const position at = now().at;
    TROUPE_ASSIGN(auto out, unary(true));
    while (take_symbol("**")) {
      TROUPE_ASSIGN(auto right, unary(true));
      TROUPE_ASSIGN(out, made(expression_kind::binary, at, std::move(out), std::move(right), "**"));
    }
    return out;
  }

  core::result<expression> unary(bool with_filters) {
    const nesting one(nested_);
    TROUPE_TRY(check_depth(nested_));
    const position at = now().at;
    expression out;
    if (std::string word = take_symbol_of({"-", "+"}); !word.empty()) {
      TROUPE_ASSIGN(auto operand, unary(false));
      std::vector<expression> parts;
      parts.push_back(std::move(operand));
      TROUPE_ASSIGN(out, made(expression_kind::sign, at, std::move(parts), std::move(word)));
    } else {
      TROUPE_ASSIGN(out, primary(false));
    }
    TROUPE_ASSIGN(out, with_postfixes(std::move(out)));
    if (with_filters) return with_filters_and_tests(std::move(out));
    return out;
  }

  /// Reads a name or literal; with `as_target` also the attribute of a namespace, which can be assigned.
  core::result<expression> primary(bool as_target) {
    const position at = now().at;
    if (is(token_kind::name)) {
      const std::string word = now().word;
      skip();
      if (word == "true" || word == "True") return constant(at, boolean(true));
      if (word == "false" || word == "False") return constant(at, boolean(false));
      if (word == "none" || word == "None") return constant(at, none());
      if (!as_target || !take_symbol(".")) return name_of(at, word);
      TROUPE_ASSIGN(auto attribute, expect_name("the name of an attribute"));
      std::vector<expression> parts;
      parts.push_back(name_of(at, word));
      return made(expression_kind::attribute, at, std::move(parts), std::move(attribute));
    }
    if (is(token_kind::string)) {
      std::string all;
      for (; is(token_kind::string); skip()) all += now().word;
      return constant(at, text(std::move(all)));
    }
    if (is(token_kind::number)) {
      value x = now().constant;
      skip();
      return constant(at, std::move(x));
    }
    if (take_symbol("(")) {
      TROUPE_ASSIGN(auto out, tuple_or_one({.is_in_parentheses = true}));
      TROUPE_TRY(expect_symbol(")"));
      return out;
    }
    if (is_symbol("[")) return list();
    if (is_symbol("{")) return dictionary();
    return wanted("an expression");
  }

  /// How expressions with commas between them are read.
  struct tuple_rules {
    bool is_in_parentheses = false;  ///< `()` is the empty tuple
    bool is_target = false;          ///< names and literals only
    bool takes_namespaces = false;   ///< with is_target: also attributes of namespaces
    bool with_condition = true;      ///< `a if b else c` is one expression
    std::string_view end_word{};     ///< a name that ends the tuple
  };

  [[nodiscard]] bool is_end_of_tuple(const tuple_rules& rules) const {
    return is(token_kind::variable_end) || is(token_kind::block_end) || is_symbol(")") ||
           (!rules.end_word.empty() && is_name(rules.end_word));
  }

  /// Reads one expression, or a tuple if commas follow.
  core::result<expression> tuple_or_one(const tuple_rules& rules) {
    const nesting one(nested_);
    TROUPE_TRY(check_depth(nested_));
    const position at = now().at;
    std::vector<expression> parts;
    bool is_tuple = false;
    for (;;) {
      if (!parts.empty()) TROUPE_TRY(expect_symbol(","));
      if (is_end_of_tuple(rules)) break;
      if (rules.is_target) {
        TROUPE_ASSIGN(auto part, primary(rules.takes_namespaces));
        parts.push_back(std::move(part));
      } else {
        TROUPE_ASSIGN(auto part, any_expression(rules.with_condition));
        parts.push_back(std::move(part));
      }
      if (!is_symbol(",")) break;
      is_tuple = true;
    }
    if (!is_tuple) {
      if (!parts.empty()) return std::move(parts[0]);
      if (!rules.is_in_parentheses) return wanted("an expression");
    }
    return made(expression_kind::tuple, at, std::move(parts));
  }

  core::result<expression> list() {
    const position at = now().at;
    std::vector<expression> parts;
    TROUPE_TRY(expect_symbol("["));
    while (!is_symbol("]")) {
      if (!parts.empty()) TROUPE_TRY(expect_symbol(","));
      if (is_symbol("]")) break;
      TROUPE_ASSIGN(auto part, any_expression());
      parts.push_back(std::move(part));
    }
    TROUPE_TRY(expect_symbol("]"));
    return made(expression_kind::list, at, std::move(parts));
  }

  core::result<expression> dictionary() {
    const position at = now().at;
    std::vector<expression> parts;
    TROUPE_TRY(expect_symbol("{"));
    while (!is_symbol("}")) {
      if (!parts.empty()) TROUPE_TRY(expect_symbol(","));
      if (is_symbol("}")) break;
      TROUPE_ASSIGN(auto key, any_expression());
      TROUPE_TRY(expect_symbol(":"));
      TROUPE_ASSIGN(auto one, any_expression());
      parts.push_back(std::move(key));
      parts.push_back(std::move(one));
    }
    TROUPE_TRY(expect_symbol("}"));
    return made(expression_kind::dictionary, at, std::move(parts));
  }

  core::result<expression> with_postfixes(expression out) {
    for (;;) {
      if (is_symbol(".") || is_symbol("[")) {
        TROUPE_ASSIGN(out, subscript(std::move(out)));
      } else if (is_symbol("(")) {
        TROUPE_ASSIGN(out, call(std::move(out)));
      } else {
        return out;
      }
    }
  }

  core::result<expression> with_filters_and_tests(expression out) {
    for (;;) {
      if (is_symbol("|")) {
        skip();
        TROUPE_ASSIGN(out, filter(std::move(out)));
      } else if (is_name("is")) {
        TROUPE_ASSIGN(out, test(std::move(out)));
      } else if (is_symbol("(")) {
        TROUPE_ASSIGN(out, call(std::move(out)));
      } else {
        return out;
      }
    }
  }

  core::result<expression> subscript(expression of) {
    const position at = now().at;
    std::vector<expression> parts;
    parts.push_back(std::move(of));
    if (take_symbol(".")) {
      if (is(token_kind::number) && now().constant.is<int64_t>()) {
        parts.push_back(constant(now().at, now().constant));
        skip();
        return made(expression_kind::item, at, std::move(parts));
      }
      TROUPE_ASSIGN(auto attribute, expect_name("the name of an attribute"));
      if (attribute.starts_with("__"))
        return refused(at, fmt::format("the attribute '{}' is not supported", core::shown(attribute)));
      return made(expression_kind::attribute, at, std::move(parts), std::move(attribute));
    }
    TROUPE_TRY(expect_symbol("["));
    if (is_symbol("]")) return refused(at, "an index without a value is not supported");
    bool is_slice = false;
    if (!is_symbol(":")) {
      TROUPE_ASSIGN(auto index, any_expression());
      parts.push_back(std::move(index));
    } else {
      parts.push_back(constant(now().at, none()));
    }
    while (parts.size() < 4 && take_symbol(":")) {
      is_slice = true;
      if (is_symbol(":") || is_symbol("]") || is_symbol(",")) {
        parts.push_back(constant(now().at, none()));
      } else {
        TROUPE_ASSIGN(auto bound, any_expression());
        parts.push_back(std::move(bound));
      }
    }
    if (is_symbol(",")) return refused(now().at, "an index of several values is not supported");
    TROUPE_TRY(expect_symbol("]"));
    if (!is_slice) return made(expression_kind::item, at, std::move(parts));
    while (parts.size() < 4) parts.push_back(constant(at, none()));
    return made(expression_kind::slice, at, std::move(parts));
  }

  /// Reads arguments in parentheses and appends them to `parts` and `words`.
  core::result<void> arguments(std::vector<expression>& parts, std::vector<std::string>& words) {
    const position begin = now().at;
    const auto is_used = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
    const auto has_keyword = [&] {
      return std::ranges::any_of(words, [](const auto& w) { return !w.empty() && w != "*" && w != "**"; });
    };
    TROUPE_TRY(expect_symbol("("));
    for (bool is_first = true; !is_symbol(")"); is_first = false) {
      if (!is_first) TROUPE_TRY(expect_symbol(","));
      if (is_symbol(")")) break;
      std::string word;
      bool is_allowed = true;
      if (take_symbol("*")) {
        is_allowed = !is_used("*") && !is_used("**");
        word = "*";
      } else if (take_symbol("**")) {
        is_allowed = !is_used("**");
        word = "**";
      } else if (is(token_kind::name) && after().is == token_kind::symbol && after().word == "=") {
        is_allowed = !is_used("**") && !is_used(now().word);
        word = now().word;
        skip();
        skip();
      } else {
        is_allowed = !is_used("*") && !is_used("**") && !has_keyword();
      }
      if (!is_allowed) return refused(begin, "arguments in this order are not allowed");
      TROUPE_ASSIGN(auto part, any_expression());
      parts.push_back(std::move(part));
      words.push_back(std::move(word));
    }
    return expect_symbol(")");
  }

  core::result<expression> call(expression of) {
    const position at = now().at;
    if (of.is == expression_kind::attribute && is_refused_method(of.word))
      return refused(of.at, fmt::format("the method '{}' is not supported", core::shown(of.word)));
    std::vector<expression> parts;
    std::vector<std::string> words;
    parts.push_back(std::move(of));
    TROUPE_TRY(arguments(parts, words));
    TROUPE_ASSIGN(auto out, made(expression_kind::call, at, std::move(parts)));
    out.words = std::move(words);
    return out;
  }

  /// Reads the name of a filter or test, which may have dots in it.
  core::result<std::string> dotted_name(std::string_view what) {
    TROUPE_ASSIGN(auto out, expect_name(what));
    while (take_symbol(".")) {
      TROUPE_ASSIGN(const auto part, expect_name(what));
      out.append(".").append(part);
    }
    return out;
  }

  core::result<expression> filter(expression of) {
    const position at = now().at;
    TROUPE_ASSIGN(auto word, dotted_name("the name of a filter"));
    if (!is_filter(word)) return refused(at, fmt::format("the filter '{}' is not supported", core::shown(word)));
    std::vector<expression> parts;
    std::vector<std::string> words;
    parts.push_back(std::move(of));
    if (is_symbol("(")) TROUPE_TRY(arguments(parts, words));
    TROUPE_ASSIGN(auto out, made(expression_kind::filter, at, std::move(parts), std::move(word)));
    out.words = std::move(words);
    return out;
  }

  core::result<expression> test(expression of) {
    const position at = now().at;
    skip();
    const bool is_negated = take_name("not");
    const position at_name = now().at;
    TROUPE_ASSIGN(auto word, dotted_name("the name of a test"));
    if (!is_test(word)) return refused(at_name, fmt::format("the test '{}' is not supported", core::shown(word)));
    std::vector<expression> parts;
    std::vector<std::string> words;
    parts.push_back(std::move(of));
    if (is_symbol("(")) {
      TROUPE_TRY(arguments(parts, words));
    } else if ((is(token_kind::name) || is(token_kind::string) || is(token_kind::number) || is_symbol("[") ||
                is_symbol("{")) &&
               !is_name("else") && !is_name("or") && !is_name("and")) {
      if (is_name("is")) return refused(now().at, "tests with 'is' cannot be chained");
      TROUPE_ASSIGN(auto argument, primary(false));
      TROUPE_ASSIGN(argument, with_postfixes(std::move(argument)));
      parts.push_back(std::move(argument));
      words.emplace_back();
    }
    TROUPE_ASSIGN(auto out, made(expression_kind::test, at, std::move(parts), std::move(word)));
    out.words = std::move(words);
    if (!is_negated) return out;
    std::vector<expression> operand;
    operand.push_back(std::move(out));
    return made(expression_kind::negation, at, std::move(operand));
  }

  // Statements.

  /// Reads statements up to a block that begins with one of `ends`, whose name is then the current token; with no
  /// `ends` up to the end of the template.
  core::result<std::vector<statement>> statements(std::initializer_list<std::string_view> ends) {
    std::vector<statement> out;
    for (;;) {
      statement one;
      one.at = now().at;
      if (is(token_kind::end)) {
        if (ends.size() == 0) return out;
        return wanted(fmt::format("'{{% {} %}}'", *ends.begin()));
      }
      if (is(token_kind::data)) {
        one.word = now().word;
        skip();
      } else if (is(token_kind::variable_begin)) {
        skip();
        one.is = statement_kind::print;
        TROUPE_ASSIGN(auto printed, tuple_or_one({}));
        one.values.push_back(std::move(printed));
        TROUPE_TRY(expect(token_kind::variable_end, "'}}'"));
      } else {
        TROUPE_TRY(expect(token_kind::block_begin, "'{%'"));
        if (is(token_kind::name) && std::ranges::find(ends, now().word) != ends.end()) return out;
        const nesting deeper(nested_statements_);
        TROUPE_TRY(check_depth(nested_statements_));
        TROUPE_ASSIGN(one, block());
        TROUPE_TRY(expect(token_kind::block_end, "'%}'"));
      }
      out.push_back(std::move(one));
    }
  }

  /// Reads the end of the mark that begins a body, and the body.
  core::result<std::vector<statement>> body(std::initializer_list<std::string_view> ends) {
    take_symbol(":");
    TROUPE_TRY(expect(token_kind::block_end, "'%}'"));
    return statements(ends);
  }

  /// Reads the statement of a block up to its last `%}`.
  core::result<statement> block() {
    const position at = now().at;
    TROUPE_ASSIGN(const auto word, expect_name("the name of a statement"));
    core::result<statement> out = statement_of(word, at);
    if (out) out->at = at;
    return out;
  }

  core::result<statement> statement_of(std::string_view word, position at) {
    if (word == "for") return loop();
    if (word == "if") return branch();
    if (word == "set") return assignment();
    if (word == "macro") return macro(at);
    if (word == "call") return call_block();
    if (word == "filter") return filter_block();
    if (word == "with") return with();
    if (word == "print") return print();
    if (word == "generation") return generation(at);
    if (word == "break" || word == "continue") {
      if (loops_ == 0) return refused(at, fmt::format("'{}' stands outside of a loop", word));
      statement out;
      out.is = word == "break" ? statement_kind::leave : statement_kind::next;
      return out;
    }
    if (std::ranges::find(refused_statements, word) != refused_statements.end())
      return refused(at, fmt::format("the statement '{}' is not supported", word));
    return refused(at, fmt::format("'{}' is not a statement that belongs here", core::shown(word)));
  }

  /// Returns the expression if it can be assigned. Fails for any other.
  core::result<expression> checked_target(expression target) const {
    if (target.is == expression_kind::name || target.is == expression_kind::attribute) return target;
    if (target.is != expression_kind::tuple) return refused(target.at, "this cannot be assigned");
    for (const auto& part : target.parts) TROUPE_TRY(checked_target(part));
    return target;
  }

  core::result<statement> loop() {
    statement out;
    out.is = statement_kind::loop;
    TROUPE_ASSIGN(auto read, tuple_or_one({.is_target = true, .end_word = "in"}));
    TROUPE_ASSIGN(auto target, checked_target(std::move(read)));
    if (!take_name("in")) return wanted("'in'");
    TROUPE_ASSIGN(auto items, tuple_or_one({.with_condition = false, .end_word = "recursive"}));
    out.values.push_back(std::move(items));
    if (take_name("if")) {
      TROUPE_ASSIGN(auto test, any_expression());
      out.values.push_back(std::move(test));
      out.targets.push_back(target);
    }
    out.targets.push_back(std::move(target));
    if (is_name("recursive")) return refused(now().at, "a recursive loop is not supported");
    {
      const nesting in_loop(loops_), in_frame(frames_);
      TROUPE_ASSIGN(out.body, body({"endfor", "else"}));
    }
    const bool has_else = is_name("else");
    skip();
    if (!has_else) return out;
    const nesting in_frame(frames_);
    TROUPE_ASSIGN(out.otherwise, body({"endfor"}));
    skip();
    return out;
  }

  core::result<statement> branch() {
    statement out;
    out.is = statement_kind::branch;
    TROUPE_ASSIGN(auto test, tuple_or_one({.with_condition = false}));
    out.values.push_back(std::move(test));
    TROUPE_ASSIGN(out.body, body({"endif", "elif", "else"}));
    while (is_name("elif")) {
      statement one;
      one.is = statement_kind::branch;
      one.at = now().at;
      skip();
      TROUPE_ASSIGN(auto next, tuple_or_one({.with_condition = false}));
      one.values.push_back(std::move(next));
      TROUPE_ASSIGN(one.body, body({"endif", "elif", "else"}));
      out.others.push_back(std::move(one));
    }
    const bool has_else = is_name("else");
    skip();
    if (!has_else) return out;
    TROUPE_ASSIGN(out.otherwise, body({"endif"}));
    skip();
    return out;
  }

  core::result<statement> assignment() {
    statement out;
    TROUPE_ASSIGN(auto read, tuple_or_one({.is_target = true, .takes_namespaces = true}));
    TROUPE_ASSIGN(auto target, checked_target(std::move(read)));
    out.targets.push_back(std::move(target));
    if (take_symbol("=")) {
      out.is = statement_kind::set;
      TROUPE_ASSIGN(auto x, tuple_or_one({}));
      out.values.push_back(std::move(x));
      return out;
    }
    out.is = statement_kind::set_block;
    if (is_symbol("|")) {
      TROUPE_ASSIGN(auto filters, block_filters());
      out.values.push_back(std::move(filters));
    }
    const nesting in_frame(frames_), is_kept(captures_);
    TROUPE_ASSIGN(out.body, body({"endset"}));
    skip();
    return out;
  }

  /// Reads the filters of a block's text, each after a `|`.
  core::result<expression> block_filters() {
    expression out;
    out.is = expression_kind::block_text;
    out.at = now().at;
    while (take_symbol("|")) {
      TROUPE_ASSIGN(out, filter(std::move(out)));
    }
    return out;
  }

  /// Reads parameters in parentheses, the last of which may have defaults, into `targets` and `values`.
  core::result<void> parameters(statement& out) {
    TROUPE_TRY(expect_symbol("("));
    bool has_default = false;
    while (!is_symbol(")")) {
      if (!out.targets.empty()) TROUPE_TRY(expect_symbol(","));
      const position at = now().at;
      TROUPE_ASSIGN(auto word, expect_name("the name of a parameter"));
      for (const auto& before : out.targets)
        if (before.word == word)
          return refused(at, fmt::format("the parameter '{}' is there twice", core::shown(word)));
      out.targets.push_back(name_of(at, std::move(word)));
      if (take_symbol("=")) {
        has_default = true;
        TROUPE_ASSIGN(auto x, any_expression());
        out.values.push_back(std::move(x));
      } else if (has_default) {
        return refused(at, "a parameter without a default follows one with a default");
      }
    }
    return expect_symbol(")");
  }

  core::result<statement> macro(position at) {
    if (frames_ > 0)
      return refused(at, "a macro inside of a loop, macro or block is not supported: define it outside of them");
    statement out;
    out.is = statement_kind::macro;
    TROUPE_ASSIGN(out.word, expect_name("the name of a macro"));
    TROUPE_TRY(parameters(out));
    TROUPE_ASSIGN(out.body, function_body("endmacro"));
    return out;
  }

  /// Reads the body of a macro or of a block that is called, in which a loop around it cannot be left.
  core::result<std::vector<statement>> function_body(std::string_view end) {
    const nesting in_frame(frames_), is_kept(captures_);
    const uint32_t loops = std::exchange(loops_, 0);
    core::result<std::vector<statement>> out = body({end});
    loops_ = loops;
    if (out) skip();
    return out;
  }

  core::result<statement> call_block() {
    statement out;
    out.is = statement_kind::call_block;
    if (is_symbol("(")) TROUPE_TRY(parameters(out));
    const position at = now().at;
    TROUPE_ASSIGN(auto called, any_expression());
    if (called.is != expression_kind::call) return refused(at, "wanted a call");
    out.values.insert(out.values.begin(), std::move(called));
    TROUPE_ASSIGN(out.body, function_body("endcall"));
    return out;
  }

  core::result<statement> filter_block() {
    statement out;
    out.is = statement_kind::filter_block;
    expression block;
    block.is = expression_kind::block_text;
    block.at = now().at;
    TROUPE_ASSIGN(auto first, filter(std::move(block)));
    while (take_symbol("|")) {
      TROUPE_ASSIGN(first, filter(std::move(first)));
    }
    out.values.push_back(std::move(first));
    const nesting in_frame(frames_), is_kept(captures_);
    TROUPE_ASSIGN(out.body, body({"endfilter"}));
    skip();
    return out;
  }

  core::result<statement> with() {
    statement out;
    out.is = statement_kind::with;
    while (!is(token_kind::block_end)) {
      if (!out.targets.empty()) TROUPE_TRY(expect_symbol(","));
      TROUPE_ASSIGN(auto read, tuple_or_one({.is_target = true}));
      TROUPE_ASSIGN(auto target, checked_target(std::move(read)));
      TROUPE_TRY(expect_symbol("="));
      TROUPE_ASSIGN(auto x, any_expression());
      out.targets.push_back(std::move(target));
      out.values.push_back(std::move(x));
    }
    const nesting in_frame(frames_);
    TROUPE_ASSIGN(out.body, body({"endwith"}));
    skip();
    return out;
  }

  core::result<statement> print() {
    statement out;
    out.is = statement_kind::print;
    while (!is(token_kind::block_end)) {
      if (!out.values.empty()) TROUPE_TRY(expect_symbol(","));
      TROUPE_ASSIGN(auto x, any_expression());
      out.values.push_back(std::move(x));
    }
    return out;
  }

  core::result<statement> generation(position at) {
    if (captures_ > 0)
      return refused(at, "'generation' inside of a macro, call, filter, set or generation block is not supported");
    statement out;
    out.is = statement_kind::generation;
    marks_generation_ = true;
    TROUPE_ASSIGN(out.body, function_body("endgeneration"));
    return out;
  }

  std::string_view name_;
  std::vector<token> tokens_;
  size_t at_ = 0;
  uint32_t nested_ = 0, nested_statements_ = 0;
  uint32_t loops_ = 0;     ///< loops around the current statement that it can leave
  uint32_t frames_ = 0;    ///< frames of variables around the current statement, except the template's own
  uint32_t captures_ = 0;  ///< blocks around the current statement whose text is not printed where it is made
  bool marks_generation_ = false;
};

}  // namespace

core::result<syntax_tree> parse_template(std::string_view name, std::string_view source) {
  TROUPE_ASSIGN(auto tokens, tokens_of(name, source));
  TROUPE_ASSIGN(auto tree, parser(name, std::move(tokens)).run());
  TROUPE_TRY(place_variables(name, tree));
  return tree;
}

}  // namespace troupe::data::templates
