#include "telemetry/figures/profile.hpp"

#include <map>
#include <utility>

#include "plan/kinds.hpp"

namespace troupe::telemetry {
namespace {

/// Times of one segment of a unit: means over the micro-batches and the ranks that compute it.
struct segment_times {
  struct mean {
    double seconds = 0;
    uint64_t count = 0;
    void add(double s) {
      seconds += s;
      ++count;
    }
    [[nodiscard]] double value() const { return count > 0 ? seconds / double(count) : 0; }
  };
  mean forward, whole, input, weights, recompute;

  void add(const plan::instruction& x, double s) {
    if (x.piece > 0 && plan::row_of(x.kind).work == plan::unit_work::forward)
      forward.seconds += s;  // a multiply continues a forward, which has increased forward.count
    else
      of(x).add(s);
  }

 private:
  mean& of(const plan::instruction& x) {
    const plan::unit_work work = plan::row_of(x.kind).work;
    if (work == plan::unit_work::forward) return forward;
    if (work == plan::unit_work::recompute) return recompute;
    if (x.use == plan::use::weights) return weights;
    return x.use == plan::use::input ? input : whole;
  }
};

class collector {
 public:
  explicit collector(const instruction_times& times) : times_(times) {
    for (const auto& p : times.plans()) add(*p);
  }

  plan::model_profile run() const {
    const auto& any = *times_.plans().front();
    plan::model_profile out{.dtype = std::string(core::name_of(any.options().types.parameter)),
                            .steps = times_.steps(),
                            .update_s_per_element = share(update_s_, double(updated_)),
                            .transfer_s_per_byte = share(transfer_s_, double(transferred_)),
                            .units = plan::units_to_profile(any.table())};
    for (const auto& [where, t] : segments_) {
      const auto& [unit, segment] = where;
      auto& to = out.units[unit];
      to.forward_s += t.forward.value();
      to.recompute_s += t.recompute.value();
      const auto& s = any.table().units[unit].segments[segment];
      const bool split = t.input.count > 0 && t.weights.count > 0;
      const double of_weights = share(s.weight_part_flops(), s.backward_flops()) * t.whole.value();
      to.backward_input_s += split ? t.input.value() : t.whole.value() - of_weights;
      to.backward_weight_s += split ? t.weights.value() : of_weights;
    }
    return out;
  }

 private:
  static double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

  void add(const plan::rank_plan& p) {
    for (const auto& x : p.instructions) {
      const double s = times_.least_seconds(p, x);
      if (x.kind == plan::kind::prepare || x.kind == plan::kind::orthogonalise || x.kind == plan::kind::update ||
          x.kind == plan::kind::redo)
        update_s_ += s;
      if (plan::sends(x.kind)) {
        transfer_s_ += s;
        transferred_ += x.moved_bytes;
      }
      if (x.lane != plan::lane::compute || plan::row_of(x.kind).subject != plan::subject_type::unit) continue;
      segments_[{x.subject, x.segment == plan::none ? 0 : x.segment}].add(x, s);
    }
    for (uint32_t q = 0; q < p.table().parameters.size(); ++q)
      if (p.layout->holds(p.rank, q) && p.layout->trains(q)) updated_ += p.own_states(q).count;
  }

  const instruction_times& times_;
  std::map<std::pair<uint32_t, uint32_t>, segment_times> segments_;  // key: index of the unit, index of the segment
  double update_s_ = 0, transfer_s_ = 0;
  uint64_t updated_ = 0, transferred_ = 0;
};

}  // namespace

plan::model_profile profile_of(const instruction_times& times) {
  return times.steps() == 0 ? plan::model_profile{} : collector(times).run();
}

}  // namespace troupe::telemetry
