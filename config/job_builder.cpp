#include "config/job_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "config/document/files.hpp"
#include "config/load_tree.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"

namespace troupe::config {
namespace {

constexpr place unplaced{};

/// Copies a value with the position `at` in all its parts, and adds a problem for each text or name that no file could
/// contain. The value is at most `deepest_nesting` deep.
node_ptr placed(const node& value, place at, const std::string& key, std::vector<problem>& problems) {
  const auto check = [&](const std::string& text) {
    if (text.find('\0') != std::string::npos)
      problems.push_back({at, key, "wanted text, got a NUL byte"});
    else if (!core::is_utf8(text))
      problems.push_back({at, key, "wanted UTF-8 text, got another encoding"});
  };
  node out = value;
  out.at = at;
  check(out.text);
  for (node_ptr& item : out.items) item = placed(*item, at, key, problems);
  std::set<std::string_view> names;
  for (entry& e : out.entries) {
    check(e.name);
    const std::string inner = key + "." + e.name;
    if (!names.insert(e.name).second) problems.push_back({at, inner, "given twice in a mapping"});
    e.at = at;
    e.value = placed(*e.value, at, inner, problems);
  }
  return std::make_shared<const node>(std::move(out));
}

/// Sets the number of values and the nesting depth of a list or mapping that contains `inner`.
void count(node& outer, const node& inner) {
  outer.nodes += inner.nodes;
  outer.height = std::max(outer.height, inner.height + 1);
}

}  // namespace

job_value::job_value(bool value) : tree_(make_scalar(node_kind::plain, value ? "true" : "false", unplaced)) {}
job_value::job_value(bool is_negative, uint64_t magnitude)
    : tree_(make_scalar(node_kind::plain, fmt::format("{}{}", is_negative ? "-" : "", magnitude), unplaced)) {}
job_value::job_value(double value) : tree_(make_scalar(node_kind::plain, fmt::format("{}", value), unplaced)) {}
job_value::job_value(const char* text) : job_value(std::string_view(text)) {}
job_value::job_value(std::string_view text) : tree_(make_scalar(node_kind::quoted, std::string(text), unplaced)) {}
job_value::job_value(const std::string& text) : job_value(std::string_view(text)) {}
job_value::job_value(const std::filesystem::path& path) : job_value(path.string()) {}

job_value job_value::none() { return job_value(make_scalar(node_kind::null, "", unplaced)); }

job_value job_value::list(std::vector<job_value> items) {
  node out;
  out.kind = node_kind::sequence;
  out.height = 1;
  for (job_value& x : items) {
    count(out, *x.tree_);
    out.items.push_back(std::move(x.tree_));
  }
  return job_value(std::make_shared<const node>(std::move(out)));
}

job_value job_value::mapping(std::vector<std::pair<std::string, job_value>> entries) {
  node out;
  out.kind = node_kind::mapping;
  out.height = 1;
  for (auto& [name, x] : entries) {
    count(out, *x.tree_);
    out.entries.push_back({std::move(name), unplaced, std::move(x.tree_)});
  }
  return job_value(std::make_shared<const node>(std::move(out)));
}

job_builder& job_builder::set(std::string_view key, const job_value& value) {
  const place at{0, ++calls_, 1};
  const auto refuse = [&](std::string text) -> job_builder& {
    if (problems_.size() < most_diagnostics) problems_.push_back({at, core::shown(key), std::move(text)});
    return *this;
  };
  if (key.empty() || key.starts_with('.') || key.ends_with('.') || key.find("..") != key.npos)
    return refuse("wanted the name of a key, as in optimizer.params.lr");
  if (!core::is_utf8(key) || key.find('\0') != key.npos) return refuse("wanted UTF-8 text for the name of a key");
  const auto sections = static_cast<int>(std::ranges::count(key, '.')) + 1;
  if (value.tree()->height + sections > deepest_nesting)
    return refuse(fmt::format("wanted at most {} levels of nesting", deepest_nesting));
  node_ptr tree = placed(*value.tree(), at, std::string(key), problems_);
  for (std::string_view rest = key; !rest.empty();) {
    const size_t dot = rest.rfind('.');
    const size_t first = dot == rest.npos ? 0 : dot + 1;
    tree = make_mapping(std::string(rest.substr(first)), at, std::move(tree));
    rest = rest.substr(0, dot == rest.npos ? 0 : dot);
  }
  if (const size_t nodes = tree->nodes + (root_ == nullptr ? 0 : root_->nodes); nodes > most_nodes)
    return refuse(fmt::format("wanted at most {} values in all, got {}", most_nodes, nodes));
  root_ = root_ == nullptr ? std::move(tree) : overlaid(root_, tree);
  return *this;
}

load_result job_builder::load(const load_options& options) const {
  document made{root_, problems_};
  if (root_ == nullptr && problems_.empty())
    made.problems.push_back({{0, 1, 1}, "", "wanted a mapping of keys to values, got nothing"});
  const auto folder = folder_.empty() ? current_folder() : folder_;
  std::error_code ignored;
  return load_tree(made, name_, std::filesystem::absolute(folder, ignored), options);
}

}  // namespace troupe::config
