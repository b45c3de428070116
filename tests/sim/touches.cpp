#include "tests/sim/touches.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "plan/group_exchange.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/activation_extents.hpp"
#include "plan/layout/ties.hpp"
#include "plan/stages.hpp"

namespace troupe::actors {
namespace {

using plan::kind;
using plan::none;

class toucher {
 public:
  toucher(const plan::rank_plan& p, const plan::instruction& x) : p_(p), l_(*p.layout), x_(x) {}

  std::vector<touch> run() {
    switch (plan::lane_of(x_.kind)) {
      case plan::lane::control:
        for (uint32_t stage = 0; stage < plan::num_stages(l_); ++stage) write({area::activations, activation(stage)});
        break;
      case plan::lane::compute:
        x_.kind == kind::release ? release() : compute();
        break;
      case plan::lane::fabric:
        communicate();
        break;
      case plan::lane::shard:
        optimize();
        break;
      case plan::lane::writer:
        save();
        break;
      case plan::lane::io:
        swap();
        break;
    }
    return std::move(out_);
  }

 private:
  // Fails the simulation at a kind whose memory no function below names.
  [[noreturn]] void unknown() const {
    throw std::logic_error("tests/sim/touches.cpp: no memory of the kind " + std::string(plan::name_of(x_.kind)));
  }
  void read(const place& x) { add(x, touch::way::reads); }
  void write(const place& x) { add(x, touch::way::writes); }
  void change(const place& x) { add(x, touch::way::changes); }
  void add(const place& x, touch::way how) {
    if (x.first < x.end) out_.push_back({x, how});
  }
  // The next functions add the bytes of a slot. The first instruction that uses a slot writes it, because the slot is
  // empty.
  void read_slot(uint32_t b) { add_slot(b, touch::way::reads); }
  void write_slot(uint32_t b) { add_slot(b, touch::way::writes); }
  void change_slot(uint32_t b) {
    if (b != none) add_slot(b, p_.buffers[b].first == x_.id ? touch::way::writes : touch::way::changes);
  }
  // Adds one piece of an output that is computed in pieces of rows. The first piece includes the header, which is
  // stored after all rows.
  void add_piece(uint32_t b, touch::way how) {
    const auto& what = plan::exchange_of(l_, x_.subject, x_.segment, plan::use::forward);
    const uint64_t width = what.bytes / what.rows, from = p_.buffers[b].offset;
    const plan::slice rows = what.rows_of(x_.piece);
    const auto pool = static_cast<uint32_t>(p_.buffers[b].pool);
    add({area::slots, pool, from + rows.first * width, from + (rows.first + rows.count) * width}, how);
    if (x_.kind == kind::forward) add({area::slots, pool, from + what.bytes, from + p_.buffers[b].bytes}, how);
  }
  [[nodiscard]] bool is_piece() const { return plan::output_pieces(l_, x_) > 1; }
  void add_slot(uint32_t b, touch::way how) {
    if (b == none) return;
    const plan::buffer& s = p_.buffers[b];
    add({area::slots, static_cast<uint32_t>(s.pool), s.offset, s.offset + s.bytes}, how);
  }
  [[nodiscard]] static place elements(area of, uint32_t q, const plan::slice& s) {
    return {of, q, s.first, s.first + s.count};
  }
  [[nodiscard]] place whole(uint32_t q) const { return {area::parameters, q, 0, l_.table->parameters[q].numel()}; }
  [[nodiscard]] place own(uint32_t q) const { return elements(area::parameters, q, l_.slice_of(q, p_.rank)); }
  [[nodiscard]] uint32_t activation(uint32_t stage) const { return x_.micro * plan::num_stages(l_) + stage; }

  void release() {
    change_slot(x_.slots.parameters);
    if (x_.near) write({area::near_copies, x_.subject});
  }

  [[nodiscard]] std::vector<uint32_t> computed_on() const {
    const auto& unit = l_.table->units[x_.subject];
    return x_.segment == none ? unit.parameters : unit.segments[x_.segment].parameters;
  }
  void compute() {
    if (!plan::computes(x_) && x_.kind != kind::survey && x_.kind != kind::compress) unknown();
    change({area::activations, activation(l_.stage_of_unit[x_.subject])});
    if (plan::reads_parameters(x_.use)) parameters();
    read_slot(x_.slots.arrived);
    x_.kind == kind::compress ? write_slot(x_.slots.compressed) : read_slot(x_.slots.compressed);
    is_piece() ? add_piece(x_.slots.leaving, touch::way::writes) : write_slot(x_.slots.leaving);
    x_.kind == kind::forward ? write_slot(x_.slots.window) : read_slot(x_.slots.window);
    if (x_.kind == kind::forward && x_.subject + 1 == l_.table->units.size()) change({area::losses, x_.micro});
    if ((x_.kind != kind::backward && x_.kind != kind::backward_weight) || !plan::writes_gradients(x_.use)) return;
    std::vector<uint32_t> slots;
    for (const uint32_t q : computed_on())
      if (l_.trains(q)) slots.push_back(bucket_slot(l_.bucket_of[q]));
    std::ranges::sort(slots);
    slots.erase(std::ranges::unique(slots).begin(), slots.end());
    for (const uint32_t b : slots) change_slot(b);
  }
  void parameters() {
    if (!l_.gathers()) {
      for (const uint32_t q : computed_on()) read(whole(q));
      return;
    }
    read_slot(x_.slots.parameters);
    const auto& all = l_.table->units[x_.subject].parameters;
    if (std::ranges::none_of(all, [&](uint32_t q) { return l_.persistent[q]; })) return;
    for (const auto& y : p_.instructions)
      if (y.kind == kind::gather && y.subject == l_.persistent_set(p_.rank)) read_slot(y.slots.parameters);
  }

  [[nodiscard]] uint32_t bucket_slot(uint32_t bucket) const {
    return p_.bucket_buffer[size_t{bucket} * p_.options().accumulation + x_.micro];
  }
  // Adds the bytes that hold a bucket's reduced gradients after its last reduction.
  void sum(uint32_t bucket, touch::way how) {
    if (p_.options().reduces_in_place()) return add_slot(bucket_slot(bucket), how);
    if (p_.bucket_window[bucket] != none) return add_slot(p_.bucket_window[bucket], how);
    add({area::sums, bucket}, how);
  }

  void communicate() {
    switch (x_.kind) {
      case kind::gather:
        gather();
        break;
      case kind::send:
        read_slot(x_.slots.moved);
        break;
      case kind::receive:
        write_slot(x_.slots.moved);
        break;
      case kind::agree:
        change_slot(x_.slots.moved);
        break;
      case kind::exchange:
        is_piece() ? add_piece(x_.slots.moved, touch::way::changes) : change_slot(x_.slots.moved);
        break;
      case kind::reduce:
        reduce();
        break;
      case kind::tie:
        if (const auto& e = l_.exchanges[x_.subject]; true)
          if (const uint32_t given = e.gives[plan::side_of(e, l_.options.mesh.pipeline_at(p_.rank))]; given != none)
            sum(l_.bucket_of[given], touch::way::reads);
        change_slot(x_.slots.moved);
        break;
      case kind::vote:
        for (uint32_t b = 0; b < l_.buckets.size(); ++b) read({area::norms, b});
        for (uint32_t m = 0; m < p_.options().accumulation; ++m) read({area::losses, m});
        write({area::votes});
        break;
      case kind::measure:
        for (uint32_t g = 0; g < p_.sub_groups.size(); ++g)
          if (needs_norms(g)) read({area::prepared, g});
        write({area::measured});
        break;
      case kind::publish:
        for (const auto& q : l_.publish_sets[x_.subject].parameters) {
          read(own(q.parameter));
          write(whole(q.parameter));
        }
        break;
      case kind::collect:
      case kind::spread:
        change_slot(x_.slots.matrices);
        break;
      default:
        unknown();
    }
  }
  void gather() {
    if (x_.near)
      read({area::near_copies, x_.subject});
    else if (x_.slots.window != none)
      read_slot(x_.slots.window);
    else
      for (const auto& q : l_.gather_sets[x_.subject].parameters) read(own(q.parameter));
    write_slot(x_.slots.parameters);
  }
  void reduce() {
    if (p_.options().reduces_in_place()) return change_slot(x_.slots.gradients);
    read_slot(x_.slots.gradients);
    x_.slots.window == none ? change({area::sums, x_.subject}) : change_slot(x_.slots.window);
  }

  void optimize() {
    if (x_.kind == kind::norm) {
      sum(x_.subject, touch::way::reads);
      return write({area::norms, x_.subject});
    }
    if (x_.kind == kind::tied_sum) {
      read_slot(x_.slots.moved);
      for (const uint32_t q : l_.ties[x_.subject].parameters)
        if (l_.holds(p_.rank, q)) sum(l_.bucket_of[q], touch::way::changes);
      return;
    }
    if (x_.kind == kind::orthogonalise) return change_slot(x_.slots.matrices);
    if (plan::row_of(x_.kind).subject != plan::subject_type::sub_group) unknown();
    const uint32_t g = x_.subject;
    const bool ahead = x_.kind == kind::update && p_.speculates(g);
    if (!ahead) read({area::votes});
    gradients(g);
    x_.kind == kind::prepare ? write({area::prepared, g}) : read({area::prepared, g});
    x_.kind == kind::prepare ? write_slot(x_.slots.matrices) : read_slot(x_.slots.matrices);
    if (needs_norms(g) && x_.kind == kind::update) read({area::measured});
    change_slot(x_.slots.window);
    for (const auto& piece : p_.sub_groups[g].pieces) {
      change(elements(area::states, piece.parameter, piece.range));
      if (x_.kind != kind::prepare) change(elements(area::parameters, piece.parameter, piece.range));
    }
    if (ahead) write({area::undo_copies, g});
    if (x_.kind == kind::undo) read({area::undo_copies, g});
  }
  [[nodiscard]] bool needs_norms(uint32_t g) const {
    return p_.sub_groups[g].need == plan::update_need::parameter_norms;
  }
  void gradients(uint32_t g) {
    if (l_.swaps_gradients()) return;  // gradients are read together with the states
    std::vector<uint32_t> buckets;
    for (const auto& piece : p_.sub_groups[g].pieces) buckets.push_back(l_.bucket_of[piece.parameter]);
    std::ranges::sort(buckets);
    buckets.erase(std::ranges::unique(buckets).begin(), buckets.end());
    for (const uint32_t b : buckets) sum(b, touch::way::reads);
  }

  [[nodiscard]] bool has_two_places(uint32_t group) const { return plan::second_place(l_, p_.blocks[group]) > 0; }

  void save() {
    if (x_.kind == kind::write) return read_slot(x_.slots.staging);
    for (const auto& piece : p_.snapshots[x_.subject].pieces)
      for (const area of : {area::parameters, area::states, area::stored_states})
        read(elements(of, piece.parameter, piece.range));
    write_slot(x_.slots.staging);
  }

  void swap() {
    const bool in = x_.kind == kind::swap_in;
    in ? change_slot(x_.slots.window) : read_slot(x_.slots.window);
    const auto stored = [&](const place& at) { in ? read(at) : write(at); };
    switch (x_.what) {
      case plan::swapped::states:
        for (const auto& piece : p_.sub_groups[x_.subject].pieces) {
          if (!in && has_two_places(x_.subject)) {
            write(elements(area::next_states, piece.parameter, piece.range));
            continue;
          }
          stored(elements(area::stored_states, piece.parameter, piece.range));
          if (in && l_.swaps_gradients()) read({area::stored_sums, l_.bucket_of[piece.parameter]});
          if (!in && p_.options().tiers.parameters == plan::tier::nvme)
            write(elements(area::parameters, piece.parameter, piece.range));
        }
        break;
      case plan::swapped::gradients:
        stored({area::stored_sums, x_.subject});
        break;
      case plan::swapped::shards:
        for (const auto& q : l_.gather_sets[x_.subject].parameters) read(own(q.parameter));
        break;
      default:
        stored({area::stored_inputs, plan::activation_extent(l_, x_.subject, x_.micro)});
    }
  }

  const plan::rank_plan& p_;
  const plan::job_layout& l_;
  const plan::instruction& x_;
  std::vector<touch> out_;
};

}  // namespace

std::vector<touch> touches_of(const plan::rank_plan& p, const plan::instruction& x) { return toucher(p, x).run(); }

bool only_copies(const plan::instruction& x) {
  return plan::is_transfer(x.kind) || x.kind == kind::swap_in || x.kind == kind::swap_out || x.kind == kind::release ||
         (x.kind == kind::gather && x.near);
}

}  // namespace troupe::actors
