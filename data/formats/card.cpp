#include "data/formats/card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/source_file.hpp"
#include "core/text.hpp"

namespace troupe::data {
namespace {

namespace fs = std::filesystem;
using core::error_kind;
using core::fail;

struct card_line {
  size_t number = 0, indent = 0;
  std::string text;  ///< the line without its indentation
};

struct card_member;

struct card_value {
  std::string scalar;
  std::vector<card_value> items;
  std::vector<card_member> members;

  [[nodiscard]] const card_value* member(std::string_view key) const;
};

struct card_member {
  std::string key;
  card_value value;
};

const card_value* card_value::member(std::string_view key) const {
  const auto found = std::ranges::find(members, key, &card_member::key);
  return found == members.end() ? nullptr : &found->value;
}

/// Returns the end of the key in `text`; npos if the text is not a member of a mapping.
size_t end_of_key(std::string_view text) {
  if (text.ends_with(':') && text.find(": ") == std::string_view::npos) return text.size() - 1;
  return text.starts_with('"') || text.starts_with('\'') ? std::string_view::npos : text.find(": ");
}

std::string unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
  return std::string(quoted ? text.substr(1, text.size() - 2) : text);
}

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
    return fail(error_kind::bad_input, fmt::format("line {} of its metadata is not understood", line));
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
      out.members.push_back({unquoted(text.substr(0, key)), std::move(*value)});
    }
    return out;
  }

  /// Reads a scalar. Continuation lines of a text are skipped, because no such text is needed here.
  core::result<card_value> scalar(std::string_view text, size_t indent) {
    card_value out;
    if (text.starts_with('[')) {
      if (!text.ends_with(']')) return --at_, wrong();
      text = core::trimmed(text.substr(1, text.size() - 2));
      while (!text.empty()) {
        const size_t end = std::min(text.find(','), text.size());
        out.items.push_back({unquoted(core::trimmed(text.substr(0, end))), {}, {}});
        text.remove_prefix(std::min(end + 1, text.size()));
      }
    } else {
      out.scalar = unquoted(text);
    }
    while (at_ < lines_.size() && lines_[at_].indent > indent && !is_item()) ++at_;
    return out;
  }

  std::vector<card_line> lines_;
  size_t at_ = 0;
};

/// Returns the lines below `configs:`, and the rest of its own line if it has one.
std::vector<card_line> lines_of_configs(std::string_view metadata) {
  std::vector<card_line> out;
  bool is_inside = false;
  for (size_t number = 2; !metadata.empty(); ++number) {
    const auto line = metadata.substr(0, metadata.find('\n'));
    metadata.remove_prefix(std::min(line.size() + 1, metadata.size()));
    const auto text = core::trimmed(line.substr(0, std::min(line.find(" #"), line.size())));
    if (text.empty() || text.starts_with('#')) continue;
    const size_t indent = line.find_first_not_of(' ');
    const bool begins_key = indent == 0 && !text.starts_with('-');
    if (begins_key) is_inside = text.starts_with("configs:");
    if (!is_inside) continue;
    if (!begins_key) out.push_back({number, indent, std::string(text)});
    if (begins_key && text.size() > 8) out.push_back({number, 0, std::string(core::trimmed(text.substr(8)))});
  }
  return out;
}

std::vector<std::string> texts_in(const card_value& x) {
  if (x.items.empty()) return {x.scalar};
  std::vector<std::string> out;
  for (const auto& one : x.items) out.push_back(one.scalar);
  return out;
}

card_configuration configuration_in(const card_value& x) {
  card_configuration out;
  if (const auto* name = x.member("config_name")) out.name = name->scalar;
  if (const auto* folder = x.member("data_dir")) out.folder = folder->scalar;
  const auto* by_default = x.member("default");
  out.is_default = out.name == "default" || (by_default != nullptr && by_default->scalar == "true");
  const auto* files = x.member("data_files");
  if (files == nullptr) return out;
  const bool has_splits = !files->items.empty() && files->items.front().member("split") != nullptr;
  if (!has_splits) out.splits.push_back({"train", texts_in(*files)});
  for (size_t i = 0; has_splits && i < files->items.size(); ++i) {
    const auto *name = files->items[i].member("split"), *paths = files->items[i].member("path");
    if (name != nullptr && paths != nullptr) out.splits.push_back({name->scalar, texts_in(*paths)});
  }
  return out;
}

}  // namespace

core::result<data_card> read_card(const fs::path& folder) {
  data_card out;
  std::error_code ec;
  const auto path = folder / "README.md";
  if (!fs::is_regular_file(path, ec) || fs::file_size(path, ec) > max_card_bytes) return out;
  TROUPE_ASSIGN(const auto& text, core::read_file(path, max_card_bytes));
  if (!text.starts_with("---\n") && !text.starts_with("---\r\n")) return out;
  const auto end = text.find("\n---", 3);
  if (end == std::string::npos) return out;
  out.is_there = true;
  const auto configs = card_reader(lines_of_configs(std::string_view(text).substr(4, end - 3))).read();
  if (!configs)
    return fail(error_kind::bad_input,
                fmt::format("'{}': its `configs`, which list the files to train on, cannot be read: {}: name one of "
                            "its data files as data.text, or a folder of them",
                            path.string(), configs.error().text));
  for (const auto& x : configs->items) out.configurations.push_back(configuration_in(x));
  return out;
}

}  // namespace troupe::data
