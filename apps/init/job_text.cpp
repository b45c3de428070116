#include "apps/init/job_text.hpp"

#include <algorithm>

#include "config/keys/key_table.hpp"
#include "config/keys/values.hpp"

namespace troupe::apps {
namespace {

bool is_within(std::string_view key, std::string_view outer) {
  return key.starts_with(outer) && (key.size() == outer.size() || key[outer.size()] == '.');
}

/// Returns the beginning of a key's documentation, at most its first sentence, for a comment next to the key.
std::string meaning_of(std::string_view key) {
  const config::key_info* const row = config::key_named(key);
  if (row == nullptr) return {};
  const size_t end = std::min(row->meaning.find_first_of(";"), row->meaning.find(". "));
  std::string out(row->meaning.substr(0, end));
  if (out.ends_with('.')) out.pop_back();
  constexpr size_t most = 80;
  if (out.size() > most)
    if (const size_t cut = out.find_last_of(":,", most); cut != std::string::npos) out.resize(cut);
  return out;
}

/// Returns the sections that contain a key, the outermost first.
std::vector<std::string_view> sections_of(std::string_view key) {
  std::vector<std::string_view> out;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.', dot + 1))
    out.push_back(key.substr(0, dot));
  return out;
}

}  // namespace

void job_text::put(std::string_view key, std::string value, std::string comment) {
  line made{std::string(key), std::move(value), std::move(comment)};
  if (const auto same = std::ranges::find(lines_, key, &line::key); same != lines_.end()) {
    *same = std::move(made);
    return;
  }
  // Inserts the line after the last line of the innermost section of the new key that already has lines.
  auto at = lines_.end();
  const auto sections = sections_of(key);
  for (auto s = sections.rbegin(); s != sections.rend() && at == lines_.end(); ++s)
    for (auto l = lines_.begin(); l != lines_.end(); ++l)
      if (is_within(l->key, *s)) at = l + 1;
  lines_.insert(at, std::move(made));
}

void job_text::put_all(const config::node& document, const std::vector<std::string_view>& except) {
  put_below("", document, except);
}

void job_text::put_below(std::string_view section, const config::node& mapping,
                         const std::vector<std::string_view>& except) {
  for (const auto& e : mapping.entries) {
    const config::key_info* const row = config::key_in(section, e.name);
    if (row == nullptr || row->any_name()) {
      if (row != nullptr && row->is_list()) put(row->list_name(), config::as_yaml(*e.value));
      continue;
    }
    if (std::ranges::any_of(except, [&](std::string_view one) { return is_within(row->key, one); })) continue;
    const bool holds_any_names = config::key_named(row->key + ".*") != nullptr;
    if (holds_any_names && e.value->kind == config::node_kind::mapping)
      put(row->key, config::as_yaml(*e.value));
    else if (row->type == config::value_type::section && e.value->kind == config::node_kind::mapping)
      put_below(row->key, *e.value, except);
    else if (row->type != config::value_type::section && config::is_default(*row, *e.value))
      said_.push_back(row->key);
    else if (row->type != config::value_type::section)
      put(row->key, config::as_yaml(*e.value));
  }
}

void job_text::drop(std::string_view outer) {
  std::erase_if(lines_, [&](const line& l) { return is_within(l.key, outer); });
  std::erase_if(said_, [&](const std::string& key) { return is_within(key, outer); });
}

bool job_text::has(std::string_view key) const {
  return std::ranges::find(lines_, key, &line::key) != lines_.end() || std::ranges::find(said_, key) != said_.end();
}

std::string job_text::value_of(std::string_view key) const {
  const auto at = std::ranges::find(lines_, key, &line::key);
  return at == lines_.end() ? std::string() : at->value;
}

bool job_text::has_below(std::string_view section) const {
  return std::ranges::any_of(lines_, [&](const line& l) { return is_within(l.key, section); });
}

std::string job_text::yaml() const {
  constexpr size_t comment_column = 44;
  std::string out;
  for (const std::string& one : notes_) out += "# " + one + "\n";
  std::vector<std::string_view> open;
  for (const line& l : lines_) {
    const auto sections = sections_of(l.key);
    for (size_t depth = 0; depth < sections.size(); ++depth)
      if (depth >= open.size() || open[depth] != sections[depth]) {
        const size_t dot = sections[depth].rfind('.');
        std::string head = std::string(2 * depth, ' ') +
                           std::string(sections[depth].substr(dot == std::string_view::npos ? 0 : dot + 1)) + ":";
        if (const auto what = meaning_of(sections[depth]); !what.empty()) {
          head.resize(std::max(head.size() + 2, comment_column), ' ');
          head += "# " + what;
        }
        out += head + "\n";
      }
    open = sections;
    const size_t dot = l.key.rfind('.');
    std::string text =
        std::string(2 * sections.size(), ' ') + l.key.substr(dot == std::string::npos ? 0 : dot + 1) + ": " + l.value;
    if (const auto what = l.comment.empty() ? meaning_of(l.key) : l.comment; !what.empty()) {
      text.resize(std::max(text.size() + 2, comment_column), ' ');
      text += "# " + what;
    }
    out += text + "\n";
  }
  return out;
}

}  // namespace troupe::apps
