#include "data/formats/card_yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/text.hpp"

namespace troupe::data {
namespace {

/// Returns the number of bytes of the quoted text at the beginning of `text`, with its quotes; 0 if it has no end.
size_t quoted_length(std::string_view text) {
  const char quote = text.front();
  for (size_t at = 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      if (quote == '"' || !text.substr(at + 1).starts_with(quote)) return at + 1;
      ++at;
    }
  }
  return 0;
}

bool begins_quoted(std::string_view text) { return text.starts_with('"') || text.starts_with('\''); }

/// Returns the end of the key in `text`; npos if the text is not a member of a mapping.
size_t end_of_key(std::string_view text) {
  if (text.starts_with('{') || text.starts_with('[')) return std::string_view::npos;
  const size_t from = begins_quoted(text) ? quoted_length(text) : 0;
  if (begins_quoted(text) && (from == 0 || text.find_first_not_of(' ', from) != text.find(':', from)))
    return std::string_view::npos;
  const size_t inside = text.find(": ", from);
  return inside == std::string_view::npos && text.ends_with(':') ? text.size() - 1 : inside;
}

/// Returns the text without its quotes; nullopt for a form of YAML that is not read: escapes, anchors, aliases, tags.
std::optional<std::string> unquoted(std::string_view text) {
  constexpr std::string_view other_forms = "&*!|>%@`";
  if (!begins_quoted(text)) {
    if (!text.empty() && other_forms.find(text.front()) != std::string_view::npos) return std::nullopt;
    return std::string(text);
  }
  if (quoted_length(text) != text.size() || (text.front() == '"' && text.find('\\') != std::string_view::npos))
    return std::nullopt;
  std::string out;
  for (size_t at = 1; at + 1 < text.size(); ++at) {
    out += text[at];
    if (text.front() == '\'' && text[at] == '\'') ++at;  // inside single quotes, '' is one quote
  }
  return out;
}

/// Returns the line without the comment at its end; `#` begins one after a blank, outside quotes.
std::string_view without_comment(std::string_view line) {
  for (size_t at = 0; at < line.size(); ++at) {
    const bool begins_word = at == 0 || std::string_view(" [{,").find(line[at - 1]) != std::string_view::npos;
    if (line[at] == '#' && (at == 0 || core::is_ascii_blank(line[at - 1]))) return line.substr(0, at);
    if (begins_word && begins_quoted(line.substr(at)))
      if (const size_t length = quoted_length(line.substr(at)); length > 0) at += length - 1;
  }
  return line;
}

/// Parses a list or mapping in brackets (flow style), which is on one line.
class flow_reader {
 public:
  explicit flow_reader(std::string_view text) : text_(text) {}

  /// Returns the value; nullopt if the text has another form.
  std::optional<card_value> read() {
    auto out = value(0);
    return out && text_.empty() ? out : std::nullopt;
  }

 private:
  void skip_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(' '), text_.size())); }
  bool take(char c) {
    skip_blanks();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    skip_blanks();
    return true;
  }

  std::optional<card_value> value(size_t depth) {
    card_value out;
    if (depth > max_card_depth) return std::nullopt;
    if (take('[')) {
      while (!take(']')) {
        auto item = value(depth + 1);
        if (!item || !(take(',') || text_.starts_with(']'))) return std::nullopt;
        out.items.push_back(std::move(*item));
      }
    } else if (take('{')) {
      while (!take('}')) {
        const auto key = word(true);
        if (!key || !take(':')) return std::nullopt;
        auto item = value(depth + 1);
        if (!item || !(take(',') || text_.starts_with('}'))) return std::nullopt;
        out.members.push_back({*key, std::move(*item)});
      }
    } else {
      auto text = word(false);
      if (!text) return std::nullopt;
      out.scalar = std::move(*text);
    }
    skip_blanks();
    return out;
  }

  /// Reads one scalar, quoted or not; a key (`is_key`) ends at a colon.
  std::optional<std::string> word(bool is_key) {
    size_t end = begins_quoted(text_) ? quoted_length(text_) : 0;
    if (begins_quoted(text_) && end == 0) return std::nullopt;
    while (end < text_.size() && std::string_view(",[]{}").find(text_[end]) == std::string_view::npos &&
           !(text_[end] == ':' && (is_key || text_.substr(end + 1).starts_with(' '))))
      ++end;
    const auto out = unquoted(core::trimmed(text_.substr(0, end)));
    text_.remove_prefix(end);
    return out && !out->empty() ? out : std::nullopt;
  }

  std::string_view text_;
};

class card_reader {
 public:
  explicit card_reader(std::vector<card_line> lines) : lines_(std::move(lines)) {}

  core::result<card_value> read() {
    if (lines_.empty()) return card_value();
    auto out = block(lines_.front().indent, 0);
    if (out && at_ < lines_.size()) return wrong();
    return out;
  }

 private:
  [[nodiscard]] tl::unexpected<core::error> wrong() const {
    const size_t line = at_ < lines_.size() ? lines_[at_].number : lines_.back().number;
    return core::fail(core::error_kind::bad_input, fmt::format("line {} of its metadata is not understood", line));
  }
  [[nodiscard]] bool is_item() const { return lines_[at_].text == "-" || lines_[at_].text.starts_with("- "); }
  [[nodiscard]] bool is_here(size_t indent) const { return at_ < lines_.size() && lines_[at_].indent == indent; }

  core::result<card_value> block(size_t indent, size_t depth) {
    if (depth > max_card_depth) return wrong();
    if (is_item()) return list(indent, depth);
    if (end_of_key(lines_[at_].text) == std::string_view::npos) return scalar(lines_[at_++].text, indent);
    return mapping(indent, depth);
  }

  core::result<card_value> list(size_t indent, size_t depth) {
    card_value out;
    while (is_here(indent) && is_item()) {
      auto& line = lines_[at_];
      const size_t content = std::min(line.text.size(), line.text.find_first_not_of(' ', 1));
      if (content == line.text.size()) {
        ++at_;
        if (at_ == lines_.size() || lines_[at_].indent <= indent) return wrong();
      } else {
        line.indent += content;
        line.text.erase(0, content);
      }
      auto item = block(lines_[at_].indent, depth + 1);
      if (!item) return item;
      out.items.push_back(std::move(*item));
    }
    return out;
  }

  core::result<card_value> mapping(size_t indent, size_t depth) {
    card_value out;
    while (is_here(indent) && !is_item()) {
      const std::string text = lines_[at_].text;
      const size_t key = end_of_key(text);
      if (key == std::string::npos) return wrong();
      const auto rest = core::trimmed(std::string_view(text).substr(key + 1));
      ++at_;
      core::result<card_value> value = card_value();
      if (!rest.empty())
        value = scalar(rest, indent);
      else if (at_ < lines_.size() && (lines_[at_].indent > indent || (is_here(indent) && is_item())))
        value = block(lines_[at_].indent, depth + 1);
      if (!value) return value;
      const auto name = unquoted(core::trimmed(std::string_view(text).substr(0, key)));
      if (!name) return --at_, wrong();
      out.members.push_back({*name, std::move(*value)});
    }
    return out;
  }

  /// Returns the value that begins with `text` in the line before `at_`: a list or mapping in brackets, or a scalar.
  /// Further lines of a scalar are skipped and the value is marked as unread, because no key of a card needs such a
  /// text.
  core::result<card_value> scalar(std::string_view text, size_t indent) {
    card_value out;
    const bool is_flow = text.starts_with('[') || text.starts_with('{');
    if (is_flow) {
      auto value = flow_reader(text).read();
      if (!value) return --at_, wrong();
      out = std::move(*value);
    } else {
      const auto value = unquoted(text);
      out.scalar = value.value_or("");
      out.is_unread = !value.has_value();
    }
    for (; at_ < lines_.size() && lines_[at_].indent > indent && !is_item(); ++at_) {
      if (is_flow) return wrong();
      out.is_unread = true;
    }
    return out;
  }

  std::vector<card_line> lines_;
  size_t at_ = 0;
};

}  // namespace

const card_value* card_value::member(std::string_view key) const {
  const auto found = std::ranges::find(members, key, &card_member::key);
  if (found == members.end()) return nullptr;
  const auto& x = found->value;
  return x.scalar.empty() && !x.is_unread && x.items.empty() && x.members.empty() ? nullptr : &x;
}

card_outline outline_of(std::string_view metadata) {
  card_outline out;
  bool is_inside = false;
  for (size_t number = 2; !metadata.empty(); ++number) {
    const auto line = metadata.substr(0, metadata.find('\n'));
    metadata.remove_prefix(std::min(line.size() + 1, metadata.size()));
    const auto text = core::trimmed(without_comment(line));
    if (text.empty()) continue;
    const size_t indent = line.find_first_not_of(' ');
    if (indent > 0 || text.starts_with('-')) {
      if (is_inside) out.configs.push_back({number, indent, std::string(text)});
      continue;
    }
    const size_t key = end_of_key(text);
    const auto name = key == std::string_view::npos ? std::nullopt : unquoted(core::trimmed(text.substr(0, key)));
    if (name) out.keys.push_back(*name);
    out.hides_configs = out.hides_configs || (!name && text.find("configs") != std::string_view::npos);
    is_inside = name == "configs";
    const auto rest = is_inside ? core::trimmed(text.substr(key + 1)) : std::string_view();
    if (!rest.empty()) out.configs.push_back({number, 0, std::string(rest)});
  }
  return out;
}

core::result<card_value> read_card_value(std::vector<card_line> lines) { return card_reader(std::move(lines)).read(); }

}  // namespace troupe::data
