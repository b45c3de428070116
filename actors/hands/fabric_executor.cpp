#include "actors/hands/fabric_executor.hpp"

#include "plan/layout/ties.hpp"

namespace troupe::actors {

void fabric_executor::begin(std::shared_ptr<step_context> context) {
  context_ = std::move(context);
  std::erase_if(pieces_of_, [&](const auto& x) { return x.first.use_count() == 1 && &x.second != pieces_; });
  auto [it, fresh] = pieces_of_.try_emplace(context_->program);
  if (fresh) it->second = job::pieces_of(context_->plan());
  pieces_ = &it->second;
}

fabric::request describe_collective(step_context& context, const plan::instruction& x,
                                    std::span<const fabric::piece> pieces) {
  const auto& p = context.plan();
  const bool acts = context.acts(x.guard);
  auto r = acts ? job::collective_form(p, x) : fabric::request();
  r.id = {context.order.step, x.communicator, context.order.collective_of(x).sequence,
          context.program->names[x.communicator][x.sequence]};
  if (!acts) return r;
  r.pieces = pieces;
  if (x.kind == plan::kind::reduce) r.input_scale = static_cast<float>(context.rules.input_scale);
  return r;
}

std::optional<uint32_t> pending_collective(const step_context& context, const collective_id& m) {
  const uint64_t before = context.order.before(m.communicator);
  const auto& of = context.program->collectives[m.communicator];
  if (m.sequence < before || m.sequence - before >= of.size()) return std::nullopt;
  const uint32_t id = of[m.sequence - before];
  const auto& span = context.spans[id];
  if (span.start_ns.load(std::memory_order_relaxed) == 0 || span.end_ns.load(std::memory_order_relaxed) != 0)
    return std::nullopt;
  return id;
}

fabric::request fabric_executor::request_for(const plan::instruction& x) const {
  const auto& p = context_->plan();
  auto r = describe_collective(*context_, x, (*pieces_)[x.communicator][x.sequence]);
  if (!context_->acts(x.guard)) return r;
  switch (x.kind) {
    case plan::kind::gather:
      r.input = x.near                                             ? memory_->at(plan::pool::near_copies)
                : p.options().tiers.parameters != plan::tier::nvme ? memory_->at(plan::pool::parameters)
                : x.slots.window != plan::none                     ? memory_->window(p, x.slots.window)
                                                                   : memory_->cached(x.subject);
      r.output = memory_->at(plan::pool::gathered) + p.buffers[x.slots.parameters].offset;
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
    case plan::kind::tie: {
      const auto& e = p.layout->exchanges[x.subject];
      if (const uint32_t q = e.gives[plan::side_of(e, p.options().mesh.pipeline_at(p.rank))]; q != plan::none)
        r.input = memory_->last_gradient(p, q);
      r.output = memory_->window(p, x.slots.moved);
      break;
    }
    case plan::kind::reduce:
      r.output = memory_->at(plan::pool::buckets) + p.buffers[x.slots.gradients].offset;
      r.input = r.output;
      if (!p.options().reduces_in_place()) r.output = memory_->at(plan::pool::accumulated);
      if (x.slots.window != plan::none) r.output = memory_->window(p, x.slots.window);
      break;
    default:  // All other kinds move their slot in place. The communicator refuses a request without memory.
      if (x.slots.moved != plan::none)
        r.input = r.output = memory_->window(p, x.slots.moved);
      else if (x.slots.matrices != plan::none)
        r.input = r.output = memory_->at(plan::pool::directions) + p.buffers[x.slots.matrices].offset;
      break;
  }
  return r;
}

core::result<progress> meet(fabric::communicator& communicator, const fabric::request& r) {
  TROUPE_TRY(communicator.post(r));
  TROUPE_ASSIGN(auto ended, communicator.advance(r.id.sequence));
  return ended == fabric::progress::done ? progress::done : progress::pending;
}

core::result<std::optional<uint32_t>> go_on(const memberships& all, const step_context& context, uint64_t number) {
  const auto m = collective_id::of(number);
  const auto id = pending_collective(context, m);
  if (!id) return std::nullopt;
  TROUPE_ASSIGN(auto ended, all[m.communicator]->advance(m.sequence));
  if (ended == fabric::progress::pending) return std::nullopt;
  return id;
}

void abort_all(const memberships& all, const core::error& why) {
  for (const auto& member : all)
    if (member) member->abort(why);
}

core::result<progress> fabric_executor::start(const plan::instruction& x) {
  return meet(*communicators_[x.communicator], request_for(x));
}

core::result<std::optional<uint32_t>> fabric_executor::advance(uint64_t number) {
  return go_on(communicators_, *context_, number);
}

}  // namespace troupe::actors
