#include "actors/hands/io_executor.hpp"

#include <algorithm>

#include "plan/layout/activation_extents.hpp"

namespace troupe::actors {
namespace {

// Appends to `out` the moves for elements [first, first + count) of this rank's own states, numbered over all of its
// blocks: one move for each block of the swap file that holds some of these elements. `window`: byte offset of the
// first element in the window.
void add_runs(const plan::rank_plan& p, plan::state_part part, uint64_t first, uint64_t count, uint64_t window,
              uint32_t place, std::vector<swap_move>& out) {
  const uint64_t element_bytes = core::size_of(plan::type_of(*p.layout, part));
  for (uint64_t at = first; at < first + count;) {
    const auto& b = plan::block_at(p, at);
    const uint64_t n = std::min(first + count, b.first + b.elements) - at;
    out.push_back({plan::range_of(*p.layout, b, part, at, n, place), window + (at - first) * element_bytes});
    at += n;
  }
}

}  // namespace

std::vector<swap_move> moves_of(const plan::rank_plan& p, const plan::instruction& x, uint32_t place) {
  std::vector<swap_move> out;
  switch (x.what) {
    case plan::swapped::nothing:
      break;
    case plan::swapped::states: {
      const auto& b = p.blocks[x.subject];
      const uint64_t gradient = plan::part_offset(*p.layout, b, plan::state_part::master);
      if (x.kind == plan::kind::swap_out) {
        out.push_back({plan::states_written(*p.layout, b, 1 - place), gradient});
      } else if (const auto states = plan::states_read(*p.layout, b, place);
                 states.offset == b.file_offset + gradient) {
        out.push_back({{b.file_offset, x.moved_bytes}, 0});
      } else {
        if (gradient > 0) out.push_back({{b.file_offset, gradient}, 0});
        if (states.bytes > 0) out.push_back({states, gradient});
      }
      break;
    }
    case plan::swapped::activations:
      out.push_back({p.activation_extents[plan::activation_extent(*p.layout, x.subject, x.micro)], 0});
      break;
    case plan::swapped::gradients: {
      const auto& begins = p.offsets.bucket_begin;
      add_runs(p, plan::state_part::gradient, begins[x.subject], begins[x.subject + 1] - begins[x.subject], 0, place,
               out);
      break;
    }
    case plan::swapped::shards: {
      const auto part = plan::weights_part(*p.layout);
      const uint64_t element_bytes = core::size_of(plan::type_of(*p.layout, part));
      for (const auto& run : plan::shard_runs(p, x.subject))
        add_runs(p, part, run.first, run.count, run.slot * element_bytes, place, out);
      break;
    }
  }
  return out;
}

io_executor::~io_executor() {
  if (port_ == nullptr) return;
  port_.reset();  // the port's destructor waits for requests in flight
  for (size_t i = 0; i < late_.size(); ++i) memory_->write_ends();
}

void io_executor::begin(std::shared_ptr<step_context> context) {
  context_ = std::move(context);
  const auto& p = context_->plan();
  std::erase_if(moves_, [&](const auto& x) { return x.first.use_count() == 1 && &x.second != last_; });
  last_ = &moves_[context_->program];
  const uint32_t place = memory_->place();
  auto& moves = moves_[context_->program][place];
  if (moves.empty()) {
    moves.resize(p.instructions.size());
    for (uint32_t id : p.lanes[static_cast<size_t>(plan::lane::io)]) moves[id] = moves_of(p, p.instructions[id], place);
  }
  current_ = &moves;
}

// True if `x` is a write of states that may still be running when its step ends. This has two conditions. First, only
// swaps of a repeated update (`redo`) depend on `x`; must_wait() holds back these swaps, and those of the next step,
// until the write is done. Second, the next step reads the block before it updates it, because only that read waits for
// the write.
bool io_executor::outlives(const plan::instruction& x) const {
  if (x.kind != plan::kind::swap_out || x.what != plan::swapped::states) return false;
  const auto& p = context_->plan();
  const auto& b = p.blocks[x.subject];
  return std::ranges::all_of(context_->program->dependents[x.id],
                             [&](uint32_t id) { return p.instructions[id].repeats == plan::repetition::redo; }) &&
         plan::states_read(*p.layout, b).bytes + plan::part_offset(*p.layout, b, plan::state_part::master) > 0;
}

bool io_executor::must_wait(const transfer& t) const {
  const auto meet = [](uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
  };
  for (const auto& w : late_) {
    if (meet(reinterpret_cast<uintptr_t>(t.window), t.bytes, reinterpret_cast<uintptr_t>(w.window), w.bytes))
      return true;
    for (const auto& m : *t.moves)
      for (const auto& n : *w.moves)
        if (meet(m.range.offset, m.range.bytes, n.range.offset, n.range.bytes)) return true;
  }
  return false;
}

core::result<void> io_executor::submit(const transfer& t) {
  swap_order order{.kind = t.writes ? storage::io_kind::write : storage::io_kind::read, .token = t.token, .parts = {}};
  for (const auto& m : *t.moves) order.parts.push_back({m.range.offset, {t.window + m.window, m.range.bytes}});
  return port_->submit(order);
}

core::result<progress> io_executor::start(const plan::instruction& x) {
  if (late_failure_) return core::fail(*late_failure_);
  if (x.kind != plan::kind::swap_in && x.kind != plan::kind::swap_out)
    return core::fail(core::error_kind::bug, "not for the io lane");
  if (!context_->acts(x.guard)) return progress::done;
  // The thread that submits to the kernel must outlive its requests, so the lane's thread opens the port.
  if (port_ == nullptr) {
    TROUPE_ASSIGN(auto opened, open_(memory_->windows()));
    port_ = std::move(opened);
  }
  const auto& p = context_->plan();
  const transfer t{(context_->order.run << 32) | x.id, x.kind == plan::kind::swap_out, outlives(x), &(*current_)[x.id],
                   memory_->window(p, x.slots.window), p.buffers[x.slots.window].bytes};
  if (!late_.empty()) {
    TROUPE_TRY(look());
    if (must_wait(t)) {
      held_.push_back(t);
      return progress::pending;
    }
  }
  TROUPE_TRY(submit(t));
  if (!t.outlives) return progress::pending;
  memory_->write_begins();
  late_.push_back(t);
  return progress::done;
}

core::result<void> io_executor::look() {
  completed_.clear();
  port_->look(completed_);
  for (auto& c : completed_) {
    const auto late = std::find_if(late_.begin(), late_.end(), [&](const transfer& t) { return t.token == c.token; });
    if (late == late_.end()) {
      ended_.push_back(std::move(c));
      continue;
    }
    late_.erase(late);
    memory_->write_ends(c.error);
    if (c.error && !late_failure_) late_failure_ = c.error->in("a write of the previous step");
  }
  return submit_held();
}

core::result<void> io_executor::submit_held() {
  for (size_t i = 0; i < held_.size();) {
    if (must_wait(held_[i])) {
      ++i;
      continue;
    }
    TROUPE_TRY(submit(held_[i]));
    held_.erase(held_.begin() + static_cast<long>(i));
  }
  return {};
}

// Returns one ended swap per call. If further swaps have ended, makes the lane call advance() again at once.
core::result<std::optional<uint32_t>> io_executor::advance(uint64_t) {
  if (port_ == nullptr) return std::nullopt;
  TROUPE_TRY(look());
  if (ended_.empty()) return std::nullopt;
  const auto c = std::move(ended_.front());
  ended_.pop_front();
  if (!ended_.empty()) timer_(std::chrono::nanoseconds(0), 0);
  if (c.token >> 32 != context_->order.run) return std::nullopt;
  const auto id = static_cast<uint32_t>(c.token);
  if (c.error) return core::fail(c.error->in(context_->plan().describe(id)));
  return id;
}

void io_executor::abort(const core::error&) {
  if (port_ == nullptr) return;
  completed_.clear();
  port_->stop(completed_);
  for (const auto& t : late_) {
    const auto c =
        std::find_if(completed_.begin(), completed_.end(), [&](const auto& x) { return x.token == t.token; });
    memory_->write_ends(c == completed_.end() ? std::nullopt : c->error);
  }
  late_.clear();
  held_.clear();
}

}  // namespace troupe::actors
