// Builds a tree of nodes from the events of a YAML or JSON parser, and enforces the limits of document.hpp on size and
// depth. Leaves the syntax to the parsers.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/document/document.hpp"

namespace troupe::config {

/// Exception that ends the reading of a text that is refused, with the reason and its position. Only the parser that
/// uses a tree_builder catches it.
struct refusal {
  place at;
  std::string text;
};

class tree_builder {
 public:
  /// `merges`: the unquoted name `<<` inserts the entries of one or several mappings, as in YAML 1.1.
  explicit tree_builder(uint32_t source, bool merges = false) : source_(source), merges_(merges) {}

  [[nodiscard]] place at(int line, int column) const { return {source_, line, column}; }

  /// Opens a mapping or a sequence; `anchor` is the YAML anchor's number, 0 for none. Throws refusal beyond
  /// `deepest_nesting` or `most_nodes`, or if the open mapping expects a name.
  void open(node_kind kind, place where, size_t anchor = 0);
  void close();
  /// Adds a scalar. If the open mapping expects a name, the scalar is the name of its next entry, else it is a value.
  void scalar(node_kind kind, std::string text, place where, size_t anchor = 0);
  /// Adds once more the node with the YAML anchor number `anchor`. Throws refusal if that node is not complete yet, and
  /// beyond the limits of document.hpp.
  void alias(size_t anchor, place where);

  [[nodiscard]] document take() { return {std::move(root_), std::move(problems_)}; }

 private:
  struct frame {
    node value;
    size_t anchor = 0;
    std::optional<entry> pending;
    std::unordered_map<std::string, place> names;
    std::optional<entry> merge;  ///< the `<<` entry, whose mappings are merged into `value` by close(); nullopt: none
    bool pending_merge = false;
  };
  void take_over(frame& into, const entry& merge);
  [[nodiscard]] bool wants_name() const;
  void add(node_ptr value, size_t anchor);
  void count(size_t nodes, place where);

  uint32_t source_;
  bool merges_;
  size_t nodes_ = 0;
  std::vector<frame> open_;
  std::unordered_map<size_t, node_ptr> anchored_;
  node_ptr root_;
  std::vector<problem> problems_;
};

/// Returns the first reason for which both readers refuse a text: no text except blanks, a NUL byte, bytes that are not
/// UTF-8, or too many bytes; nullopt if there is none.
std::optional<refusal> unreadable(std::string_view text, uint32_t source);

}  // namespace troupe::config
