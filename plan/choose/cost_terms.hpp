// Divides the predicted time of an instruction into terms: matrix products by their sizes, attention, bytes by what
// moves them, started operations. Owns which terms an instruction has; the constants are in machine_costs.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/choose/cost.hpp"
#include "plan/choose/machine_costs.hpp"

namespace troupe::plan {

/// Kind of work that takes the time of a term.
enum class cost_kind : uint8_t {
  product,         ///< one matrix product of known sizes
  other_products,  ///< flops whose sizes are not known
  attention,       ///< scores and weighted sums of attention in forward
  attention_backward,
  elementwise,  ///< norms and residual sums
  activation,   ///< activation functions of MLPs
  loss,         ///< the loss and the gradient of logits
  memory,       ///< bytes that an instruction touches, of a model whose layers are not known
  copy,         ///< copies, gathers and exchanges
  reduction,    ///< sums over ranks, and sums of squares
  update,       ///< states that an optimizer reads and writes
  launch,       ///< started operations
  disk_start,   ///< start of a transfer to or from a disk
  disk_read,
  disk_written,
};

/// Returns "product", "elementwise" ...
std::string_view name_of(cost_kind kind);
/// Returns the unit of a term's amount: "flop", "B" or "operations".
std::string_view unit_of(cost_kind kind);

/// A part of an instruction's time: `amount` at `rate` amounts per second.
struct cost_term {
  cost_kind kind = cost_kind::copy;
  product_size size = {};  ///< sizes of a product; 0 for other kinds
  double amount = 0;
  double seconds = 0;
  /// Returns the amount per second; 0 if the term takes no time.
  [[nodiscard]] double rate() const { return seconds > 0 ? amount / seconds : 0; }
  /// Returns "product 512 x 768 by 768 x 192", or the name of the kind.
  [[nodiscard]] std::string text() const;
};

/// Returns the terms of an instruction; their seconds add up to predicted_seconds(). Terms of equal kind and sizes are
/// one term. Terms without amount are left out.
std::vector<cost_term> cost_terms(const rank_plan& p, const instruction& x, const cost_model& costs);

/// Returns the seconds of an instruction that moves nothing to or from a disk, by measured constants. Requires
/// `costs.machine.is_known()`.
double measured_terms_seconds(const rank_plan& p, const instruction& x, const cost_model& costs);

}  // namespace troupe::plan
