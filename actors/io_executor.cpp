#include "actors/io_executor.hpp"

#include <algorithm>

namespace troupe::actors {
namespace {

// Runs of the linear layout, cut at the blocks whose extents hold them.
void add_runs(const plan::step_plan& p, plan::state_part part, uint64_t first, uint64_t count, uint64_t window,
              std::vector<swap_move>& out) {
  const uint64_t element_bytes = core::size_of(plan::type_of(p, part));
  for (uint64_t at = first; at < first + count;) {
    const auto& b = plan::block_at(p, at);
    const uint64_t n = std::min(first + count, b.first + b.elements) - at;
    out.push_back({plan::range_of(p, b, part, at, n), window + (at - first) * element_bytes});
    at += n;
  }
}

}  // namespace

std::vector<swap_move> moves_of(const plan::step_plan& p, const plan::instruction& x) {
  std::vector<swap_move> out;
  switch (x.what) {
    case plan::swapped::nothing:
      break;
    case plan::swapped::states: {
      const auto& b = p.blocks[x.subject];
      const uint64_t gradient = plan::part_offset(p, b, plan::state_part::master);
      if (x.kind == plan::kind::swap_in)
        out.push_back({{b.file_offset, x.bytes}, 0});
      else
        out.push_back({plan::states_written(p, b), gradient});
      break;
    }
    case plan::swapped::gradients: {
      const auto& begins = p.bucket_begin[p.rank];
      add_runs(p, plan::state_part::gradient, begins[x.subject], begins[x.subject + 1] - begins[x.subject], 0, out);
      break;
    }
    case plan::swapped::shards: {
      const auto part = plan::weights_part(p);
      const uint64_t element_bytes = core::size_of(plan::type_of(p, part));
      for (const auto& run : plan::shard_runs(p, x.subject, p.rank))
        add_runs(p, part, run.first, run.count, run.slot * element_bytes, out);
      break;
    }
  }
  return out;
}

core::result<void> io_executor::open() {
  auto options = setup_.queue;
  options.pools = memory_->windows();
  auto queue = storage::swap_queue::open(options);
  if (!queue) return core::fail(queue.error());
  queue_ = std::move(*queue);
  if (setup_.warn)
    for (const auto& line : queue_->remarks()) setup_.warn(line);
  return setup_.watch->add(queue_->event_descriptor(), setup_.wake);
}

io_executor::~io_executor() {
  if (queue_) setup_.watch->remove(queue_->event_descriptor());
}

void io_executor::begin(std::shared_ptr<step_context> context) {
  context_ = std::move(context);
  const auto& p = context_->plan();
  auto [it, fresh] = moves_.try_emplace(context_->program.get());
  if (fresh) {
    it->second.resize(p.instructions.size());
    for (uint32_t id : p.lanes[static_cast<size_t>(plan::lane::io)]) it->second[id] = moves_of(p, p.instructions[id]);
  }
  current_ = &it->second;
}

core::result<progress> io_executor::start(const plan::instruction& x) {
  if (!context_->acts(x.guard)) return progress::done;
  // The thread that asks the kernel has to be the one that lasts: the lane's.
  if (queue_ == nullptr)
    if (auto ok = open(); !ok) return core::fail(ok.error());
  std::byte* window = memory_->window(context_->plan(), x.staged);
  storage::swap_request request;
  request.kind = x.kind == plan::kind::swap_in ? storage::io_kind::read : storage::io_kind::write;
  request.token = (context_->order.run << 32) | x.id;
  for (const auto& m : (*current_)[x.id])
    request.parts.push_back({memory_->swap_file(), m.range.offset, {window + m.window, m.range.bytes}});
  if (auto ok = queue_->submit(std::move(request)); !ok) return core::fail(ok.error());
  return progress::pending;
}

void io_executor::look() {
  completed_.clear();
  while (queue_->poll(completed_) > 0) {
  }
  for (auto& c : completed_) ended_.push_back(std::move(c));
  setup_.watch->resume(queue_->event_descriptor());
}

// One instruction at a time: what else has ended is told by a message that the lane sends itself.
core::result<std::optional<uint32_t>> io_executor::advance(uint64_t) {
  if (queue_ == nullptr) return std::nullopt;
  look();
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
  if (queue_) queue_->cancel_all();
}

}  // namespace troupe::actors
