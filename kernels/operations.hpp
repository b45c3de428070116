// The operations of a device as layers and the executors of instructions call them: one table for each kind of device.
// Owns the list; the declaration of the CPU kernel defines what an operation computes, and docs/numerics.md compares
// the bits.
//
// Pointers refer to memory of the device, except those inside options, which are plain values. Element types are those
// that a model computes in: f64, f32, bf16 or f16; "wide" memory holds the type that sums are formed in, f64 for f64
// and f32 for all others. Work begins in the order of calls. No operation returns a number by value: the caller passes
// the address where it is to be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.hpp"
#include "device/device_id.hpp"
#include "kernels/layers/causal_attention.hpp"
#include "kernels/layers/cross_entropy.hpp"
#include "kernels/layers/distillation.hpp"
#include "kernels/layers/dropout.hpp"
#include "kernels/layers/rotary.hpp"
#include "kernels/layers/row_norm.hpp"
#include "kernels/optimizer/late_update.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "kernels/sums/grouped_sums.hpp"
#include "kernels/sums/norm.hpp"
#include "kernels/sums/reduce.hpp"

namespace troupe::kernels {

/// Functions that update pieces of parameters whose optimizer states have type `State`: float, or double in fp64 runs,
/// with which other runs are compared.
template <class State>
struct optimizer_operations {
  using piece = optimizer_piece<State>;

  /// Updates all pieces (optimizer.hpp), in any order; they must not share memory.
  void (*update)(std::span<const piece_update<State>> all);
  /// update_keeping updates a piece and first copies the bytes that it overwrites to `undo`; take_back restores them
  /// (undo.hpp).
  void (*update_keeping)(const optimizer_options& o, const optimizer_step& s, const piece& x, std::byte* undo);
  void (*take_back)(const piece& x, const std::byte* undo);
  /// Changes a moving average of weights (average.hpp).
  void (*average)(State* average, const State* weights, uint64_t count, double rate);
  /// prepare_unchecked() and apply_unchecked() of LAMB, which are called before and after the norms of the whole
  /// parameter are known (lamb.hpp).
  void (*prepare_lamb)(const lamb_options& o, const optimizer_step& s, const piece& x, std::span<double> weight_sums,
                       std::span<double> update_sums);
  void (*apply_lamb)(const lamb_options& o, const optimizer_step& s, const piece& x, double trust_ratio);
  /// The steps of a Muon update: momentum and direction of a piece, orthogonalising a whole matrix of directions,
  /// changing the weights of a piece (muon.hpp, orthogonalise.hpp).
  void (*prepare_muon)(const muon_options& o, const optimizer_step& s, const piece& x, State* direction);
  void (*apply_muon)(const muon_options& o, const optimizer_step& s, const piece& x, const State* orthogonal);
  void (*orthogonalise)(std::span<State> matrix, uint64_t rows, uint64_t cols, uint32_t steps,
                        std::span<State> scratch);
  /// The steps of an update that defers the gradients of some columns of a matrix to a later update, as ZenFlow does
  /// (late_update.hpp).
  void (*add_column_sums)(const piece& x, const matrix_slice& slice, std::span<double> sums);
  void (*update_selected)(const optimizer_options& o, const optimizer_step& s, const piece& x,
                          const matrix_slice& slice, std::span<const uint8_t> selected, State* deferred);
  void (*update_deferred)(const optimizer_options& o, const optimizer_step& s, const piece& x,
                          const matrix_slice& slice, std::span<const uint8_t> selected, State* deferred,
                          uint64_t gradients);
};

struct operations {  ///< table of the functions with which one kind of device computes
  /// Functions that cast, and that sum in a fixed order (cast.hpp, norm.hpp, reduce.hpp, column_sums.hpp,
  /// grouped_sums.hpp).
  void (*cast)(const std::byte* in, core::dtype from, std::byte* out, core::dtype to, uint64_t count);
  void (*block_square_sums)(std::span<const squared_elements> all, core::dtype type);
  void (*sum_in_rank_order)(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                            const reduce_options& options);
  void (*column_sums)(const std::byte* x, core::dtype type, uint64_t rows, uint64_t width, uint64_t row_stride,
                      std::byte* out, core::dtype out_type);
  void (*grouped_sums)(const std::byte* rows, core::dtype type, uint64_t width, const row_groups& groups,
                       std::byte* sums);

  /// Functions for layer norm and RMS norm (row_norm.hpp); `mean`, `rstd`, `dweight` and `dbias` are wide.
  void (*layer_norm)(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, const norm_rows& kept);
  void (*layer_norm_backward)(const norm_input& in, const norm_gradient& gradient, const norm_rows& kept, std::byte* dx,
                              std::byte* dweight, std::byte* dbias);
  void (*rms_norm)(const norm_input& in, double epsilon, std::byte* y, const norm_rows& kept);
  void (*rms_norm_backward)(const norm_input& in, const norm_gradient& gradient, const norm_rows& kept, std::byte* dx,
                            std::byte* dweight);

  /// Functions for activations, dropout and rotary embeddings (elementwise.hpp, dropout.hpp, rotary.hpp).
  void (*gelu_tanh)(const std::byte* x, std::byte* y, core::dtype type, uint64_t count);
  void (*gelu_tanh_backward)(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type, uint64_t count,
                             std::byte* y);
  void (*silu_gated)(const std::byte* gate, const std::byte* up, std::byte* y, core::dtype type, uint64_t count);
  void (*silu_gated_backward)(const std::byte* gate, const std::byte* up, const std::byte* dy, std::byte* dgate,
                              std::byte* dup, core::dtype type, uint64_t count, std::byte* y);
  void (*drop)(std::byte* x, core::dtype type, uint64_t count, const dropout_key& key, uint64_t first_position);
  void (*draw)(uint8_t* keep, uint64_t count, const dropout_key& key, uint64_t first_position);
  void (*scale_kept)(std::byte* x, core::dtype type, const uint8_t* keep, double factor, uint64_t count);
  void (*turn_tokens)(const token_heads& x, const rotary_table& table);

  /// Attention (causal_attention.hpp). Must not be called for f64, which the kernel does not support.

  void (*partial_attention)(const attention_sizes& sizes, const attention_masks& masks, const attention_input& in,
                            std::span<const query_run> runs, std::byte* y, std::span<float> scratch);
  void (*partial_attention_backward)(const attention_sizes& sizes, const attention_masks& masks,
                                     const attention_input& in, std::span<const query_run> runs, const std::byte* dy,
                                     const attention_gradient& out, std::span<float> scratch);

  /// Sets `loss`, one number in the wide type (f64 for f64, else f32), to the mean loss of the rows that `form`
  /// describes (cross_entropy.hpp). `weights`: factor of each row's loss; null: 1. The mean divides by all rows.
  void (*cross_entropy)(const loss_form& form, const float* weights, const std::byte* logits, core::dtype type,
                        uint64_t rows, uint64_t width, const int64_t* targets, std::byte* log_sums, std::byte* loss);
  /// Replaces the logits of `rows` rows by their gradient (cross_entropy.hpp). `gradient`, one number in the wide type,
  /// is the gradient of the loss, which is the mean over `mean_rows` rows: these rows and possibly others.
  void (*cross_entropy_backward)(const loss_form& form, const float* weights, std::byte* logits, core::dtype type,
                                 uint64_t rows, uint64_t width, uint64_t stride, const int64_t* targets,
                                 const std::byte* log_sums, const std::byte* gradient, uint64_t mean_rows);
  /// Cross-entropy over a vocabulary whose columns are split over ranks: the statistics of this rank's columns, and
  /// the loss from the statistics of all ranks. `statistics` are in the wide type (f64 for f64, else f32); `type` is
  /// the type of the logits.
  void (*cross_entropy_part)(const loss_form& form, const std::byte* logits, core::dtype type, uint64_t rows,
                             uint64_t width, uint64_t stride, const int64_t* targets, std::byte* statistics);
  void (*joined_cross_entropy)(const loss_form& form, const float* weights, const std::byte* statistics,
                               core::dtype type, uint64_t ranks, uint64_t rank_stride, uint64_t rows,
                               std::byte* log_sums, std::byte* loss);

  /// Computes the losses of distillation.hpp and replaces the logits by their gradient. `gradient`, one number in the
  /// wide type, is the gradient of the mean loss over `mean_rows` rows, which include these; `losses` has one fp64
  /// number per row.
  void (*distil)(std::byte* logits, const std::byte* teacher, core::dtype type, uint64_t rows, uint64_t width,
                 const int64_t* targets, const distillation_terms& terms, const std::byte* gradient, uint64_t mean_rows,
                 std::byte* losses);

  optimizer_operations<float> in_fp32;
  optimizer_operations<double> in_fp64;

  /// Returns the optimizer functions for states of type `State`.
  template <class State>
  [[nodiscard]] const optimizer_operations<State>& updates() const {
    if constexpr (sizeof(State) == sizeof(double))
      return in_fp64;
    else
      return in_fp32;
  }
};

/// Returns the table of operations of a device, which must exist (device::check); the table lives as long as the
/// process.
const operations& operations_of(device::device_id device);

/// Registers `table` as the table of operations of all devices of `kind`; called by the code that provides such devices
/// (device::provide).
void provide(device::device_kind kind, const operations& table);

}  // namespace troupe::kernels
