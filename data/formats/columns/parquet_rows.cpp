// Puts the values of a Parquet table's leaves together to rows, by their levels of definition and repetition. Source:
// Melnik et al. 2010, "Dremel: interactive analysis of web-scale datasets", appendix B, and parquet-format's
// LogicalTypes.md for lists.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/columns/parquet_leaf.hpp"
#include "data/formats/objects.hpp"

namespace troupe::data {
namespace {

/// Reads the rows of one row group.
class row_assembler {
 public:
  row_assembler(const core::source_file& file, const parquet_table& table, size_t group, uint64_t& bytes_left)
      : file_(file), table_(table), group_(group) {
    for (const auto& column : table.columns) add_leaves_of(column, bytes_left);
  }

  core::result<void> open() {
    for (auto& leaf : leaves_) TROUPE_TRY(leaf.advance());
    return {};
  }

  core::result<nlohmann::ordered_json> row() {
    auto out = nlohmann::ordered_json::object();
    for (const auto& column : table_.columns) {
      if (!first_of(column).has_entry() || first_of(column).repetition() != 0)
        return lies(column, "its values do not begin a row");
      TROUPE_ASSIGN(out[column.name], value_of(column));
    }
    return out;
  }

  [[nodiscard]] uint64_t byte() const { return leaves_.front().byte(); }

 private:
  void add_leaves_of(const parquet_node& node, uint64_t& bytes_left) {
    if (node.members.empty())
      leaves_.emplace_back(file_, node, table_.groups[group_].chunks[node.leaf], group_ + 1, bytes_left);
    for (const auto& member : node.members) add_leaves_of(member, bytes_left);
  }

  [[nodiscard]] tl::unexpected<core::error> lies(const parquet_node& node, const char* why) const {
    return core::refused(
        fmt::format("'{}': row group {}: the column '{}': {}", file_.name(), group_ + 1, node.name, why));
  }

  parquet_leaf& first_of(const parquet_node& node) {
    const parquet_node* at = &node;
    while (!at->members.empty()) at = &at->members.front();
    return leaves_[at->leaf];
  }

  /// Steps over the entry of every leaf below `node`, because the node is missing there.
  core::result<void> pass(const parquet_node& node) {
    if (node.members.empty()) return leaves_[node.leaf].advance();
    for (const auto& member : node.members) TROUPE_TRY(pass(member));
    return {};
  }

  core::result<nlohmann::ordered_json> value_of(const parquet_node& node) {
    auto& first = first_of(node);
    if (!first.has_entry()) return lies(node, "its values end within a row");
    if (node.is_repeated) return items_of(node);
    if (node.is_optional && first.definition() < node.definition) {
      TROUPE_TRY(pass(node));
      return nlohmann::ordered_json();
    }
    return body_of(node);
  }

  core::result<nlohmann::ordered_json> items_of(const parquet_node& node) {
    auto out = nlohmann::ordered_json::array();
    auto& first = first_of(node);
    if (first.definition() < node.definition) {
      TROUPE_TRY(pass(node));
      return out;
    }
    do {
      TROUPE_ASSIGN(auto item, body_of(node));
      out.push_back(std::move(item));
    } while (first.has_entry() && first.repetition() == node.repetition);
    return out;
  }

  core::result<nlohmann::ordered_json> body_of(const parquet_node& node) {
    if (node.members.empty()) {
      auto& leaf = leaves_[node.leaf];
      if (!leaf.has_entry()) return lies(node, "its values end within a row");
      nlohmann::ordered_json out = std::move(leaf.value());
      TROUPE_TRY(leaf.advance());
      return out;
    }
    if (node.is_map) return lies(node, "it holds maps, which are not read; store them as structures");
    if (node.is_list && node.members.size() == 1 && node.members.front().is_repeated)
      return list_of(node.members.front());
    auto out = nlohmann::ordered_json::object();
    for (const auto& member : node.members) {
      TROUPE_ASSIGN(out[member.name], value_of(member));
    }
    return out;
  }

  /// Returns the items of a list. Newer writers have a structure with one member around each item.
  core::result<nlohmann::ordered_json> list_of(const parquet_node& items) {
    TROUPE_ASSIGN(auto out, value_of(items));
    if (items.members.size() != 1) return out;
    for (auto& item : out) {
      nlohmann::ordered_json inner = std::move(item[items.members.front().name]);
      item = std::move(inner);
    }
    return out;
  }

  const core::source_file& file_;
  const parquet_table& table_;
  size_t group_;
  std::vector<parquet_leaf> leaves_;
};

}  // namespace

core::result<void> read_parquet_rows(const core::source_file& file, const std::vector<std::string>& columns,
                                     uint64_t& bytes_left, const object_visit& visit) {
  TROUPE_ASSIGN(const auto table, read_parquet_table(file, columns));
  uint64_t number = 0;
  for (size_t g = 0; g < table.groups.size(); ++g) {
    row_assembler rows(file, table, g, bytes_left);
    TROUPE_TRY(rows.open());
    for (uint64_t r = 0; r < table.groups[g].rows; ++r) {
      TROUPE_ASSIGN(const auto row, rows.row());
      TROUPE_TRY(visit(row, fmt::format("{}: row {}", file.name(), ++number), rows.byte()));
    }
  }
  return {};
}

}  // namespace troupe::data
