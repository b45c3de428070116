#include "actors/hands/writer_executor.hpp"

#include "plan/layout/saves.hpp"

namespace troupe::actors {

plan::state_part part_of(const plan::saved_piece& x) {
  if (x.part == plan::saved_frozen) return plan::state_part::copy;
  if (x.part == plan::saved_weights) return plan::state_part::master;
  return plan::moment_part(x.part - plan::saved_moment);
}

void writer_executor::begin(std::shared_ptr<step_context> context) {
  // A late wake may have left the part of an earlier save, whose target the earlier context keeps alive.
  if (context->order.save != nullptr) end_part();
  context_ = std::move(context);
  if (context_->order.save == nullptr) return;
  occupied_.clear();
  part_ = context_->order.save->begin_part(context_->plan().rank);
  if (context_->plan().snapshots.empty()) all_handed_over();  // other ranks write all states of this model
}

void writer_executor::copy(const plan::instruction& x) {
  const auto& p = context_->plan();
  const uint64_t slot = p.buffers[x.slots.staging].offset;
  if (const auto last = occupied_.find(slot); last != occupied_.end()) part_->settle(last->second);
  occupied_[slot] = x.subject;
  for (const auto& piece : p.snapshots[x.subject].pieces)
    copy_piece(x.subject, piece, memory_->at(plan::pool::staging) + slot + piece.offset);
}

void writer_executor::copy_piece(uint32_t block, const plan::saved_piece& piece, std::byte* to) {
  const auto part = part_of(piece);
  const uint64_t bytes = piece.range.count * core::size_of(states_->type_of(part));
  if (const auto* from = states_->in_memory(piece.parameter, part, piece.range); from != nullptr)
    part_->copy(block, {from, bytes}, to);
  else  // state in the swap file: reads it into the slot
    part_->fetch(block, {to, bytes}, [&](std::span<std::byte> into) {
      return states_->read(piece.parameter, part, piece.range.first, into);
    });
}

core::result<progress> writer_executor::start(const plan::instruction& x) {
  if (part_ == nullptr) return core::fail(core::error_kind::bug, "a plan that saves was started without a save");
  if (x.kind != plan::kind::snapshot && x.kind != plan::kind::write)
    return core::fail(core::error_kind::bug, "not for the writer lane");
  const auto& p = context_->plan();
  if (part_->takes(x.subject)) {
    if (x.kind == plan::kind::snapshot)
      copy(x);
    else
      part_->write(x.subject, {memory_->at(plan::pool::staging) + p.buffers[x.slots.staging].offset,
                               p.snapshots[x.subject].bytes});
  }
  if (x.id == p.lanes[static_cast<size_t>(plan::lane::writer)].back()) all_handed_over();
  return progress::done;
}

// Makes the lane call advance(), which ends this rank's part of the checkpoint, after the lane has reported its last
// instruction.
void writer_executor::all_handed_over() {
  all_handed_over_ = true;
  timer_(std::chrono::nanoseconds(0), 0);
}

void writer_executor::end_part() {
  if (part_ != nullptr && all_handed_over_) part_->end();
  part_.reset();
  all_handed_over_ = false;
}

// A starved timer may call late, when begin() has already ended the part that the call is for and has begun the next
// one, which must not end before all of its blocks are handed over.
core::result<std::optional<uint32_t>> writer_executor::advance(uint64_t) {
  if (all_handed_over_) end_part();
  return std::nullopt;
}

// Ends the part successfully if all blocks were handed over: those copies are valid although the step has failed.
void writer_executor::abort(const core::error&) { end_part(); }
writer_executor::~writer_executor() { end_part(); }

}  // namespace troupe::actors
