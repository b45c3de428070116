// Learning rates as pure functions of the step. Owns the formulas; the position is one integer that others keep.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::kernels {

/// The keys of DeepSpeed's scheduler section.
struct schedule_options {
  std::string type = "";  ///< WarmupLR, WarmupDecayLR or WarmupCosineLR; empty: always `base_lr`
  double warmup_min_lr = 0;
  std::optional<double> warmup_max_lr = std::nullopt;  ///< none: `base_lr` for WarmupLR, 0.001 for WarmupDecayLR
  uint64_t warmup_num_steps = 1000;                    ///< N = max(2, this)
  uint64_t total_num_steps = 0;                        ///< T, of WarmupDecayLR and WarmupCosineLR
  std::string warmup_type = "log";                     ///< or "linear"
  double warmup_min_ratio = 0;                         ///< of WarmupCosineLR, as cos_min_ratio
  double cos_min_ratio = 1e-4;
  double base_lr = 1e-3;  ///< the optimizer's own
};

/// Whether `type` names a schedule of this file (or is empty).
bool is_schedule(const std::string& type);

/// The rate after `it` + 1 schedule steps; -1: before the first one. `type` must satisfy `is_schedule`.
/// During warm-up (it < N): g = ln(it + 1) / ln N ("log") or it / N ("linear"). With p = min(1, (it - N + 1) / max(1, T
/// - N)):
///   WarmupLR        min + (max - min) * g, then max
///   WarmupDecayLR   the same, then g = max(0, (T - it) / max(1, T - N))
///   WarmupCosineLR  base * (m + (1 - m) * g), then base * max(0, c + (1 - c) * (1 + cos(pi * p)) / 2)
/// Before the first step: warmup_min_lr, for WarmupCosineLR 0. Source: DeepSpeed's runtime/lr_schedules.py.
double learning_rate(const schedule_options& options, int64_t it);

}  // namespace troupe::kernels
