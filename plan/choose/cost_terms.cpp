#include "plan/choose/cost_terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

#include "plan/keeping.hpp"
#include "plan/kinds.hpp"

namespace troupe::plan {
namespace {

using core::layer_info;
using core::layer_kind;
using take_term = std::function<void(const cost_term&)>;

/// Share of an instruction's flops below which a difference is taken for rounding.
constexpr double rounding_share = 1e-9;

/// Returns true if the layer embeds tokens, positions or types: it copies rows of its weight.
bool looks_up(layer_kind k) {
  return k == layer_kind::embedding || k == layer_kind::position_embedding || k == layer_kind::type_embedding;
}

/// The terms of one segment's forward and backward for one micro-batch, by the layers of the model's table.
class segment_terms {
 public:
  segment_terms(const rank_plan& p, uint32_t unit, uint32_t segment, const machine_costs& costs, const take_term& take)
      : p_(p),
        segment_(p.table().units[unit].segments[segment]),
        layers_(p.table().layers_of(unit, segment)),
        costs_(costs),
        take_(take),
        element_bytes_(static_cast<double>(core::size_of(p.options().types.parameter))),
        is_last_(unit + 1 == p.table().units.size()) {}

  /// True if the table knows what the segment's layers compute; false for a host program's modules.
  [[nodiscard]] bool is_known() const {
    return std::ranges::any_of(layers_, [](const layer_info& l) { return l.rows > 0; });
  }

  /// Gives the terms of a forward that computes `flops`: all flops of the segment, or the part that is left.
  void forward(double flops) const {
    forward_products(flops);
    double pending = 0;  // elements of a row that linear layers have computed for what follows them
    for (const layer_info& l : layers_) {
      pending = follows(l, pending, 1, 2);
      if (looks_up(l.kind)) add(cost_kind::copy, 2 * bytes_of(l, static_cast<double>(l.out)), costs_.copy_bytes_per_s);
    }
    ends(2);
    add_launches(1);
  }

  /// Gives the terms of a backward, or of a part of it, that computes `flops`.
  void backward(double flops, use part) const {
    std::vector<cost_term> listed;
    double all = 0;
    const auto list = [&](cost_term term) {
      all += term.amount;
      listed.push_back(term);
    };
    for (const layer_info& l : layers_) {
      if (l.product_flops == 0) continue;
      const product_size size = size_of(l);
      if (part != use::weights) list(product({size.m, size.k, size.n}, l.product_flops));
      const bool is_here = part == use::backward || l.is_tiled == (part == use::input);
      if (is_here && l.weight && p_.table().parameters[*l.weight].trainable)
        list(product({size.k, size.n, size.m}, l.product_flops));
    }
    if (const double rest = unlisted_flops(); rest > 0 && part != use::weights)
      list(rest_term(2 * rest, cost_kind::attention_backward, costs_.attention_backward_flops_per_s));
    // Flops beyond those of backward itself are products of forward that backward repeats.
    const double share = all > flops && all > 0 ? flops / all : 1;
    for (cost_term term : listed) {
      term.amount *= share;
      term.seconds *= share;
      take_(term);
    }
    if (flops - all > rounding_share * flops) forward_products(flops - all);
    if (part == use::weights) return add_launches(1);
    double pending = 0;
    for (const layer_info& l : layers_) {
      pending = follows(l, pending, 2, 3);
      if (!looks_up(l.kind)) continue;
      const double gradient = l.weight ? static_cast<double>(p_.table().parameters[*l.weight].numel()) *
                                             static_cast<double>(core::size_of(p_.options().bucket_type()))
                                       : 0;
      add(cost_kind::copy, 2 * bytes_of(l, static_cast<double>(l.out)) + gradient, costs_.copy_bytes_per_s);
    }
    ends(2);
    add_launches(2);
  }

 private:
  [[nodiscard]] product_size size_of(const layer_info& l) const { return {rows_of(l), l.out, l.in}; }
  /// Returns the rows of one product of a layer: those of a tile, if the layer is computed in tiles.
  [[nodiscard]] uint64_t rows_of(const layer_info& l) const {
    return l.is_tiled && segment_.tile_rows > 0 ? std::min(l.rows, segment_.tile_rows) : l.rows;
  }
  [[nodiscard]] double bytes_of(const layer_info& l, double elements) const {
    return static_cast<double>(l.rows) * elements * element_bytes_;
  }
  [[nodiscard]] cost_term product(const product_size& size, double flops) const {
    const double of_one = size.flops();
    return {cost_kind::product, size, flops,
            of_one > 0 ? product_seconds(costs_, size) * flops / of_one : flops / costs_.product_flops_per_s};
  }
  /// Returns the term of flops that are no product with a weight: attention's, if the segment has attention.
  [[nodiscard]] cost_term rest_term(double flops, cost_kind as_attention, double rate) const {
    const bool attends = std::ranges::any_of(layers_, [](auto& l) { return l.kind == layer_kind::attention; });
    return {attends ? as_attention : cost_kind::other_products,
            {},
            flops,
            flops / (attends ? rate : costs_.product_flops_per_s)};
  }
  /// Returns the flops of the segment's forward that are no product with a layer's weight.
  [[nodiscard]] double unlisted_flops() const {
    double rest = segment_.forward_flops;
    for (const layer_info& l : layers_) rest -= l.product_flops;
    return rest > rounding_share * segment_.forward_flops ? rest : 0;
  }
  void forward_products(double flops) const {
    if (segment_.forward_flops <= 0 || flops <= 0) return;
    const double share = flops / segment_.forward_flops;
    for (const layer_info& l : layers_)
      if (l.product_flops > 0) take_(product(size_of(l), l.product_flops * share));
    if (const double rest = unlisted_flops(); rest > 0)
      take_(rest_term(rest * share, cost_kind::attention, costs_.attention_flops_per_s));
  }
  void add(cost_kind kind, double amount, double rate) const {
    if (amount > 0) take_({kind, {}, amount, amount / rate});
  }
  /// Gives the bytes of a norm or an activation, which read `reads` times what precedes them; a norm touches its rows
  /// `norm_times`. Returns the elements of a row that linear layers have computed for the next layer.
  double follows(const layer_info& l, double pending, double reads, double norm_times) const {
    if (l.kind == layer_kind::linear) return pending + static_cast<double>(l.out);
    if (l.kind == layer_kind::norm)
      add(cost_kind::elementwise, norm_times * bytes_of(l, static_cast<double>(l.in)), costs_.elementwise_bytes_per_s);
    if (l.kind == layer_kind::activation)
      add(cost_kind::activation, bytes_of(l, reads * std::max(pending, static_cast<double>(l.in)) + double(l.out)),
          costs_.activation_bytes_per_s);
    return 0;
  }
  /// Gives the bytes of the sum with the residual path at the segment's end, which reads two rows and writes one, or of
  /// the loss, which touches the logits `of_loss` times.
  void ends(double of_loss) const {
    const layer_info& l = layers_.back();
    if (l.kind != layer_kind::linear) return;
    if (is_last_)
      return add(cost_kind::loss, of_loss * bytes_of(l, static_cast<double>(l.out)), costs_.loss_bytes_per_s);
    add(cost_kind::elementwise, 3 * bytes_of(l, static_cast<double>(l.out)), costs_.elementwise_bytes_per_s);
  }
  void add_launches(double each) const {
    const double count = each * static_cast<double>(layers_.size());
    if (costs_.launch_s > 0) take_({cost_kind::launch, {}, count, count * costs_.launch_s});
  }

  const rank_plan& p_;
  const core::segment_info& segment_;
  std::span<const layer_info> layers_;
  const machine_costs& costs_;
  const take_term& take_;
  double element_bytes_;
  bool is_last_;
};

/// Gives the flops and bytes of an instruction of whose work only these are known.
void plain_terms(double flops, double bytes, cost_kind as, double bytes_per_s, const machine_costs& c,
                 const take_term& take) {
  if (flops > 0) take({cost_kind::other_products, {}, flops, flops / c.product_flops_per_s});
  if (bytes > 0) take({as, {}, bytes, bytes / bytes_per_s});
}

void terms_of_unit(const rank_plan& p, const instruction& x, const machine_costs& c, const take_term& take) {
  const auto& segments = p.table().units[x.subject].segments;
  if (x.segment == none) {  // a recompute of the whole unit
    double all = 0;
    for (uint32_t s = 0; s < segments.size(); ++s)
      all += keeping_of(p.table(), p.options(), x.subject, s).recompute_flops;
    bool known = all > 0;
    for (uint32_t s = 0; s < segments.size() && known; ++s)
      known = segment_terms(p, x.subject, s, c, take).is_known() || segments[s].forward_flops == 0;
    if (known) {
      for (uint32_t s = 0; s < segments.size(); ++s) {
        const double flops = keeping_of(p.table(), p.options(), x.subject, s).recompute_flops;
        if (const segment_terms of(p, x.subject, s, c, take); of.is_known() && flops > 0)
          of.forward(flops * x.flops / all);
      }
      return;
    }
  } else if (const segment_terms of(p, x.subject, x.segment, c, take); of.is_known()) {
    if (x.kind == kind::backward) return of.backward(x.flops, x.use == use::input ? use::input : use::backward);
    if (x.kind == kind::backward_weight) return of.backward(x.flops, use::weights);
    if (x.kind != kind::multiply) return of.forward(x.flops);
  }
  plain_terms(x.flops, static_cast<double>(touched_bytes(p, x)), cost_kind::memory, c.copy_bytes_per_s, c, take);
}

/// Gives the terms of an instruction that moves nothing to or from a disk.
void measured_terms(const rank_plan& p, const instruction& x, const machine_costs& c, const take_term& take) {
  if (computes(x)) return terms_of_unit(p, x, c, take);
  const auto bytes = static_cast<double>(touched_bytes(p, x));
  const kind_row& row = row_of(x.kind);
  if (row.bytes == touched::reduced || row.bytes == touched::exchanged || x.kind == kind::tied_sum ||
      x.kind == kind::norm)
    return plain_terms(x.flops, bytes, cost_kind::reduction, c.reduce_bytes_per_s, c, take);
  if (row.hidden == hidden_work::updates)
    return plain_terms(x.flops, bytes, cost_kind::update, c.update_bytes_per_s, c, take);
  if (row.lane == lane::compute)
    return plain_terms(x.flops, bytes, cost_kind::elementwise, c.elementwise_bytes_per_s, c, take);
  plain_terms(x.flops, bytes, cost_kind::copy, c.copy_bytes_per_s, c, take);
}

/// Gives the terms of an instruction by whichever constants price it.
void terms_of(const rank_plan& p, const instruction& x, const cost_model& costs, const take_term& take) {
  const touched bytes = row_of(x.kind).bytes;
  const double seconds = predicted_seconds(p, x, costs);
  if (bytes == touched::disk_written_late)
    return take({cost_kind::disk_written, {}, static_cast<double>(x.moved_bytes), seconds});
  if (bytes == touched::disk_read || bytes == touched::disk_written) {
    take({cost_kind::disk_start, {}, 1, costs.disk_latency_s});
    return take({bytes == touched::disk_read ? cost_kind::disk_read : cost_kind::disk_written,
                 {},
                 static_cast<double>(x.moved_bytes),
                 seconds - costs.disk_latency_s});
  }
  const bool by_card = is_priced_by_card(p, costs);
  if (costs.machine.is_known() && !by_card) return measured_terms(p, x, costs.machine, take);
  const double products_s = x.flops / costs.flops_per_s * (by_card ? p.options().ranks() : 1);
  if (x.flops > 0) take({cost_kind::other_products, {}, x.flops, std::min(seconds, products_s)});
  if (const auto moved = static_cast<double>(touched_bytes(p, x)); moved > 0)
    take({cost_kind::memory, {}, moved, std::max(0.0, seconds - products_s)});
}

}  // namespace

std::string_view name_of(cost_kind kind) {
  switch (kind) {
    case cost_kind::product:
      return "product";
    case cost_kind::other_products:
      return "other products";
    case cost_kind::attention:
      return "attention";
    case cost_kind::attention_backward:
      return "attention, backward";
    case cost_kind::elementwise:
      return "element-wise";
    case cost_kind::activation:
      return "activation";
    case cost_kind::loss:
      return "loss";
    case cost_kind::memory:
      return "memory";
    case cost_kind::copy:
      return "copy";
    case cost_kind::reduction:
      return "reduction";
    case cost_kind::update:
      return "optimizer";
    case cost_kind::launch:
      return "launch";
    case cost_kind::disk_start:
      return "disk, start";
    case cost_kind::disk_read:
      return "disk, read";
    case cost_kind::disk_written:
      return "disk, written";
  }
  return "?";
}

std::string_view unit_of(cost_kind kind) {
  switch (kind) {
    case cost_kind::product:
    case cost_kind::other_products:
    case cost_kind::attention:
    case cost_kind::attention_backward:
      return "flop";
    case cost_kind::launch:
    case cost_kind::disk_start:
      return "operations";
    default:
      return "B";
  }
}

std::string cost_term::text() const {
  if (kind != cost_kind::product) return std::string(name_of(kind));
  return fmt::format("{} {} x {} by {} x {}", name_of(kind), size.m, size.k, size.k, size.n);
}

std::vector<cost_term> cost_terms(const rank_plan& p, const instruction& x, const cost_model& costs) {
  std::vector<cost_term> out;
  terms_of(p, x, costs, [&](const cost_term& more) {
    const auto same =
        std::ranges::find_if(out, [&](const cost_term& t) { return t.kind == more.kind && t.size == more.size; });
    if (same == out.end()) {
      out.push_back(more);
      return;
    }
    same->amount += more.amount;
    same->seconds += more.seconds;
  });
  return out;
}

double measured_terms_seconds(const rank_plan& p, const instruction& x, const cost_model& costs) {
  double out = 0;
  measured_terms(p, x, costs.machine, [&out](const cost_term& term) { out += term.seconds; });
  return out;
}

}  // namespace troupe::plan
