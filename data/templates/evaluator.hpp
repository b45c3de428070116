// Renders a template's tree: evaluates its expressions, runs its statements and collects the text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/templates/arguments.hpp"
#include "data/templates/macro_object.hpp"
#include "data/templates/syntax.hpp"
#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// Renders one tree once.
class evaluator {
 public:
  /// The bytes of the rendered text that a `generation` block has made.
  struct span {
    size_t begin = 0, end = 0;
  };

  /// `variables` is a mapping.
  evaluator(const syntax_tree& tree, value variables) : tree_(tree), variables_(std::move(variables)) {}
  ~evaluator();
  evaluator(const evaluator&) = delete;
  evaluator& operator=(const evaluator&) = delete;

  /// Returns the rendered text. Fails if the template calls `raise_exception`, and for all that Jinja refuses, too.
  core::result<std::string> render();
  /// Returns the spans of `generation` blocks in the rendered text.
  [[nodiscard]] const std::vector<span>& generated() const { return generated_; }
  /// Returns the place of the statement or expression that failed.
  [[nodiscard]] std::optional<position> failed_at() const { return failed_at_; }

 private:
  /// How a statement ends.
  enum class flow : uint8_t { goes_on, leaves_loop, next_item };

  class depth_guard;
  class frame_guard;

  core::result<flow> run(const std::vector<statement>& body);
  core::result<flow> run(const statement& one);
  core::result<flow> run_known(const statement& one);
  core::result<void> print(const statement& one);
  core::result<flow> run_branch(const statement& one);
  core::result<flow> run_loop(const statement& one);
  core::result<flow> run_items(const statement& one, loop_state& state, const std::shared_ptr<loop_state>& shared,
                               bool& had_none);
  core::result<cursor> loop_items(const statement& one);
  core::result<flow> run_set_block(const statement& one);
  core::result<flow> run_filter_block(const statement& one);
  core::result<flow> run_with(const statement& one);
  core::result<flow> run_generation(const statement& one);
  core::result<void> run_call_block(const statement& one);
  /// Runs a body whose text is kept apart from the rendered text. Returns the text through `out`.
  core::result<flow> run_apart(const std::vector<statement>& body, std::string& out);

  core::result<value> evaluate(const expression& one);
  core::result<value> evaluate_known(const expression& one);
  core::result<values> evaluate_parts(const expression& one);
  core::result<value> evaluate_name(const expression& one);
  core::result<value> evaluate_dictionary(const expression& one);
  core::result<value> evaluate_concat(const expression& one);
  core::result<value> evaluate_compare(const expression& one);
  core::result<value> evaluate_condition(const expression& one);
  core::result<value> evaluate_call(const expression& one);
  core::result<call_arguments> evaluate_arguments(const expression& one);

  core::result<value> call(const value& callee, call_arguments arguments);
  core::result<value> call_macro(const macro_object& macro, call_arguments arguments);
  core::result<value> call_global(std::string_view name, call_arguments arguments);
  core::result<std::vector<std::pair<value, value>>> entries_of(std::string_view what, call_arguments arguments);

  core::result<void> assign(const expression& target, const value& x);
  [[nodiscard]] core::result<value> reassembled(const expression& target);
  [[nodiscard]] std::optional<value>& slot(variable_place at) { return frames_[at.depth]->slots[at.slot]; }
  [[nodiscard]] std::optional<value> resolved(const std::string& name) const;
  core::result<void> append(std::string_view text);

  const syntax_tree& tree_;
  value variables_;
  allowance left_{};
  std::vector<variable_frame*> frames_{};  ///< the frames that the current statement sees, from the template's own on
  std::string rendered_{};
  std::string* out_ = &rendered_;
  std::vector<span> generated_{};
  std::vector<value> block_texts_{};                        ///< texts of the blocks whose filters are being applied
  std::vector<std::shared_ptr<name_space>> name_spaces_{};  ///< all of them, which may contain each other
  std::optional<position> failed_at_{};
  uint32_t depth_ = 0;
};

}  // namespace troupe::data::templates
