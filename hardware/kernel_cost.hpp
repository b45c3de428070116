// Prices computation on one card: products, attention and element-wise traffic within a training step, and single
// kernels as a table of kernels measures them.
#pragma once

#include "hardware/constants.hpp"
#include "hardware/workload.hpp"

namespace troupe::hardware {

/// Seconds of a forward and of the backward that belongs to it.
struct passes {
  double forward_s = 0, backward_s = 0;
};

/// Returns the seconds of two lanes that wait for each other at many small points: a sharpness of 1 adds them, a large
/// one takes the longer.
double smooth_max_s(double a_s, double b_s, double sharpness);

/// Returns the tokens of one micro-batch on one GPU.
double tokens_of(const workload& w);

/// Returns the seconds of a product, m x k by k x n, within a step. Each product loses the work of a partly filled last
/// wave of tiles, and each tile fills and drains.
double step_product_s(double m, double n, double k, const workload& w, const card& on, const constants& c);
/// Returns the seconds of a linear layer's product: forward, and the gradients of its input and weight.
passes linear_s(double m, double n, double k, const workload& w, const card& on, const constants& c);

/// Seconds of a layer's linear products; `last_s` is the forward of the last one, which an early stop leaves out.
struct layer_products {
  passes all;
  double last_s = 0;
};
layer_products layer_products_s(const workload& w, const card& on, const constants& c);
/// Returns the seconds of a layer's attention: its batched products, and the traffic of all scores unless it is fused.
passes layer_attention_s(const workload& w, const card& on, const constants& c);
/// Returns the seconds of a layer's norms, dropouts, residuals, biases and activation, which only move bytes.
passes layer_elementwise_s(const workload& w, const card& on, const constants& c);
/// Returns the seconds of the head: the vocabulary's product forward and backward, and the loss.
double head_s(const workload& w, const card& on, const constants& c);

/// Returns the seconds of one product kernel: its padded tiles at the sustained rate, the first flops of it at the rate
/// before the power limit acts; or its bytes, if they take longer.
double product_kernel_s(const product_shape& p, const card& on, const constants& c);
/// Returns the seconds of one attention kernel: half of the scores at a share of peak, and never less than the last row
/// of tiles, which reads all keys on one SM.
double attention_kernel_s(const attention_shape& a, const card& on, const constants& c);

}  // namespace troupe::hardware
