#include "actors/hands/fabric_executor.hpp"

#include "plan/layout/pieces.hpp"

namespace troupe::actors {

std::vector<std::vector<fabric::piece>> pieces_of(const plan::rank_plan& p) {
  const plan::collective_pieces all(*p.layout);
  std::vector<std::vector<fabric::piece>> out(p.num_collectives);
  for (const uint32_t id : p.lanes[static_cast<size_t>(plan::lane::fabric)]) {
    const auto& x = p.instructions[id];
    for (const auto& m : all.of(x)) out[x.sequence].push_back({m.owner, m.from, m.to, m.count});
  }
  return out;
}

void fabric_executor::begin(std::shared_ptr<step_context> context) {
  context_ = std::move(context);
  auto [it, fresh] = pieces_of_.try_emplace(context_->program.get());
  if (fresh) it->second = pieces_of(context_->plan());
  pieces_ = &it->second;
}

fabric::request describe_collective(step_context& context, const plan::instruction& x,
                                    std::span<const fabric::piece> pieces) {
  const auto& p = context.plan();
  const auto& o = p.options();
  fabric::request r;
  r.id = {context.order.step, x.communicator, context.order.sequence_base + x.sequence, p.describe(x.id)};
  if (!context.acts(x.guard)) return r;
  r.pieces = pieces;
  r.op = fabric::operation::all_gather;
  r.input_type = r.communication = r.output_type = o.types.parameter;
  const auto all_in = [&](core::dtype type) { r.input_type = r.communication = r.output_type = type; };
  if (x.kind == plan::kind::vote || x.kind == plan::kind::measure) all_in(core::dtype::f64);
  if (x.kind == plan::kind::collect || x.kind == plan::kind::spread) all_in(o.master());
  if (x.kind == plan::kind::reduce) {
    r.op = o.reduce_to_all() ? fabric::operation::all_reduce : fabric::operation::reduce_scatter;
    r.input_type = o.bucket_type();
    r.communication = o.types.communication;
    r.output_type = o.types.accumulation;
    r.input_scale = static_cast<float>(context.rules.input_scale);
    r.accumulate = !o.buckets_stay() && x.micro > 0;
  }
  return r;
}

std::optional<uint32_t> pending_collective(const step_context& context, uint64_t sequence) {
  const uint64_t base = context.order.sequence_base;
  if (sequence < base || sequence - base >= context.plan().num_collectives) return std::nullopt;
  const uint32_t id = context.program->of_sequence[sequence - base];
  const auto& span = context.spans[id];
  if (span.start_ns.load(std::memory_order_relaxed) == 0 || span.end_ns.load(std::memory_order_relaxed) != 0)
    return std::nullopt;
  return id;
}

fabric::request fabric_executor::request_for(const plan::instruction& x) const {
  const auto& p = context_->plan();
  auto r = describe_collective(*context_, x, (*pieces_)[x.sequence]);
  if (!context_->acts(x.guard)) return r;
  switch (x.kind) {
    case plan::kind::gather:
      r.input = p.options().tiers.parameters != plan::tier::nvme ? memory_->at(plan::pool::parameters)
                : x.staged != plan::none                         ? memory_->window(p, x.staged)
                                                                 : memory_->cached(x.subject);
      r.output = memory_->at(plan::pool::gathered) + p.buffers[x.buffer].offset;
      break;
    case plan::kind::publish:
      r.input = r.output = memory_->at(plan::pool::parameters);
      break;
    case plan::kind::vote:
      r.input = r.output = reinterpret_cast<std::byte*>(context_->votes.data());
      break;
    case plan::kind::measure:
      r.input = r.output = reinterpret_cast<std::byte*>(context_->norms.data());
      break;
    case plan::kind::collect:
    case plan::kind::spread:
      r.input = r.output = memory_->at(plan::pool::directions) + p.buffers[x.buffer].offset;
      break;
    case plan::kind::reduce:
      r.output = memory_->at(plan::pool::buckets) + p.buffers[x.buffer].offset;
      r.input = r.output;
      if (!p.options().buckets_stay()) r.output = memory_->at(plan::pool::accumulated);
      if (x.staged != plan::none) r.output = memory_->window(p, x.staged);
      break;
    default:
      break;  // without memory: the communicator refuses it
  }
  return r;
}

core::result<progress> meet(fabric::communicator& communicator, const fabric::request& r) {
  if (auto posted = communicator.post(r); !posted) return core::fail(posted.error());
  auto ended = communicator.advance(r.id.sequence);
  if (!ended) return core::fail(ended.error());
  return *ended == fabric::progress::done ? progress::done : progress::pending;
}

core::result<std::optional<uint32_t>> go_on(fabric::communicator& communicator, const step_context& context,
                                            uint64_t sequence) {
  const auto id = pending_collective(context, sequence);
  if (!id) return std::nullopt;
  auto ended = communicator.advance(sequence);
  if (!ended) return core::fail(ended.error());
  if (*ended == fabric::progress::pending) return std::nullopt;
  return id;
}

core::result<progress> fabric_executor::start(const plan::instruction& x) {
  if (x.kind == plan::kind::vote)  // its losses are written by kernels, which may end later than their instructions
    for (const auto& written : context_->losses_written) device::stream::current(memory_->device()).wait(written);
  return meet(*communicator_, request_for(x));
}

core::result<std::optional<uint32_t>> fabric_executor::advance(uint64_t sequence) {
  return go_on(*communicator_, *context_, sequence);
}

}  // namespace troupe::actors
