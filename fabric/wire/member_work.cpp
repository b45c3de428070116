#include "fabric/wire/member_work.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "fabric/layout.hpp"
#include "fabric/wire/sum_options.hpp"

namespace troupe::fabric {
namespace {

using kind = transfer_tag::kind;

uint64_t partial_bytes(const request& r, uint64_t count) {
  return count * core::size_of(kernels::partial_type(options_of(r)));
}
uint64_t result_bytes(const request& r, uint64_t count) { return count * core::size_of(result_type(r)); }

/// Returns options for kernels::sum_in_rank_order with one input, a finished sum of type `input`. The sum is not
/// scaled; it is rounded, and stored as `output` or, with `accumulate`, added to the values in the output.
kernels::reduce_options ended_as(const request& r, core::dtype input, core::dtype output, bool accumulate) {
  return {.input = input, .communication = r.communication, .output = output, .accumulate = accumulate};
}

std::byte* at(const request& r, const std::vector<member_memory>& memory, const wire_sum::output& o,
              const wire_chunk& c) {
  return memory[o.member].output + (o.to + c.first) * core::size_of(r.output_type);
}

/// Calls `made` to store a sum at the first output. The other outputs get a copy of it or, with `accumulate`, their own
/// call of `made`.
void store_all(const request& r, const std::vector<member_memory>& memory, const std::vector<wire_sum::output>& outputs,
               const wire_chunk& c, const std::function<void(std::byte*)>& made) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    std::byte* const to = at(r, memory, outputs[k], c);
    if (k == 0 || r.accumulate)
      made(to);
    else
      std::memcpy(to, at(r, memory, outputs[0], c), c.count * core::size_of(r.output_type));
  }
}

}  // namespace

member_work::member_work(std::shared_ptr<const wire_links> links, uint32_t member, sent_counts sent,
                         std::shared_ptr<transfer_ends> ends)
    : links_(std::move(links)),
      me_(member),
      machine_(links_->where.machine_of(member)),
      sent_(sent),
      ends_(std::move(ends)),
      incoming_(links_->limits.incoming_bytes),
      outgoing_(links_->limits.outgoing_bytes),
      results_(links_->limits.result_bytes) {}

transfer_name member_work::name_of(const job& x, uint64_t part) const {
  return {links_->communicator, x.r.id.sequence, part};
}

void member_work::begin(const request& r, std::vector<member_memory> memory) {
  job& x = jobs_[r.id.sequence];
  x.r = r;
  x.memory = std::move(memory);
  x.traffic = traffic_of(r, links_->where, me_, links_->limits);
  x.sent.resize(x.traffic.sends.size());
  x.landed.resize(x.traffic.landings.size());
  x.sent_before = contributions_;
  if (is_reduction(r.op)) contributions_ += x.traffic.sends.size();
  for (uint64_t i = 0; i < x.traffic.landings.size(); ++i) {
    const auto& l = x.traffic.landings[i];
    links_->mover->receive(
        links_->where.place_of(l.from), name_of(x, l.part), {x.memory[me_].output + l.offset, l.bytes},
        [ends = ends_, tag = transfer_tag{r.id.sequence, kind::landing, l.from, i}](const core::result<void>& how) {
          ends->tell(tag, how);
        });
  }
  for (uint64_t i = 0; i < x.traffic.sends.size(); ++i) {
    const auto& s = x.traffic.sends[i];
    links_->mover->send(links_->where.place_of(s.to), name_of(x, s.part), {x.memory[me_].input + s.offset, s.bytes},
                        [ends = ends_, tag = transfer_tag{r.id.sequence, kind::send, s.to, i}](
                            const core::result<void>& how) { ends->tell(tag, how); });
  }
}

void member_work::receive(const job& x, transfer_tag tag, uint64_t part, const std::shared_ptr<staging_buffer>& into,
                          uint64_t offset, uint64_t bytes) {
  links_->mover->receive(links_->where.place_of(tag.peer), name_of(x, part), {into->bytes.get() + offset, bytes},
                         [ends = ends_, tag, into](const core::result<void>& how) { ends->tell(tag, how); });
}

void member_work::book(job& x, const transfer_tag& tag) {
  switch (tag.what) {
    case kind::send:
      x.sent[tag.index] = true;
      ++x.num_sent;
      break;
    case kind::landing:
      x.landed[tag.index] = true;
      ++x.num_landed;
      if (x.traffic.landings[tag.index].spread) x.to_spread.push_back(tag.index);
      break;
    case kind::incoming:
      std::erase(x.adding[tag.index - x.added].missing, tag.peer);
      break;
    case kind::result:
      x.coming[tag.index - x.stored].missing.clear();
      break;
    case kind::outgoing: {
      const auto found = x.outgoing.find(tag.index);
      if (--found->second.transfers > 0) break;
      outgoing_.give_back(std::move(found->second.buffer));
      x.outgoing.erase(found);
      break;
    }
  }
}

void member_work::take_ends(outcome& out) {
  for (const auto& [tag, how] : ends_->take()) {
    const auto found = jobs_.find(tag.sequence);
    if (found == jobs_.end()) continue;
    if (!how) {
      if (!out.failed) out.failed = {tag.sequence, tag.peer, how.error()};
    } else {
      book(found->second, tag);
    }
  }
}

/// Updates this member's count of sent contributions: the number of contributions, in the order of chunks, before the
/// first one whose transfer has not ended. Transfers after it that ended earlier do not count yet.
void member_work::count_sent(outcome& out) {
  uint64_t count = contributions_;
  for (auto& [sequence, x] : jobs_) {
    if (!is_reduction(x.r.op)) continue;
    while (x.first_unsent < x.sent.size() && x.sent[x.first_unsent]) ++x.first_unsent;
    if (x.first_unsent == x.sent.size()) continue;
    count = x.sent_before + x.first_unsent;
    break;
  }
  if (count == sent_.of(me_)) return;
  sent_.set(me_, count);
  out.has_sent = true;
}

void member_work::spread(job& x) const {
  const auto& where = links_->where;
  for (const size_t i : x.to_spread) {
    const auto& l = x.traffic.landings[i];
    for (uint32_t m = where.first(machine_); m < where.first(machine_) + where.count(machine_); ++m)
      if (m != me_) std::memcpy(x.memory[m].output + l.offset, x.memory[me_].output + l.offset, l.bytes);
  }
  x.to_spread.clear();
}

void member_work::copy(job& x) const {
  for (const auto& c : x.traffic.copies) {
    const std::byte* const from = x.memory[c.from].input + c.from_offset;
    std::byte* const to = x.memory[me_].output + c.to_offset;
    if (from != to) std::memcpy(to, from, c.bytes);
  }
  x.copied = true;
}

void member_work::await_chunks(job& x) {
  const auto& where = links_->where;
  while (x.added + x.adding.size() < x.traffic.chunks.size()) {
    const uint64_t index = x.added + x.adding.size();
    const wire_chunk& c = x.traffic.chunks[index];
    const wire_sum& s = x.traffic.sums[c.sum];
    chunk_under_way next;
    const uint64_t each = s.continues ? partial_bytes(x.r, c.count) : c.count * core::size_of(x.r.input_type);
    if (s.continues)
      next.missing.push_back(*s.continues);
    else
      for (const uint32_t m : s.inputs)
        if (where.machine_of(m) != machine_) next.missing.push_back(m);
    if (!next.missing.empty()) {
      next.buffer = incoming_.take(each * next.missing.size());
      if (next.buffer == nullptr) return;
    }
    // Record the chunk before any transfer is requested: the end of a transfer may be reported at once.
    x.adding.push_back(next);
    uint64_t offset = 0;
    for (const uint32_t m : next.missing) {
      const uint64_t part = s.continues ? part_of_partial(c, where, machine_) : part_of_contribution(c, m);
      receive(x, {x.r.id.sequence, kind::incoming, m, index}, part, next.buffer, offset, each);
      offset += each;
    }
  }
}

void member_work::await_results(job& x) {
  while (x.stored + x.coming.size() < x.traffic.result_chunks.size()) {
    const uint64_t index = x.stored + x.coming.size();
    const wire_chunk& c = x.traffic.result_chunks[index];
    const uint32_t from = x.traffic.results[c.sum].from;
    chunk_under_way next{results_.take(result_bytes(x.r, c.count)), {from}};
    if (next.buffer == nullptr) return;
    x.coming.push_back(next);
    receive(x, {x.r.id.sequence, kind::result, from, index}, part_of_result(c, links_->where, machine_), next.buffer, 0,
            result_bytes(x.r, c.count));
  }
}

void member_work::pass(job& x, const wire_chunk& c, std::shared_ptr<staging_buffer> buffer, uint64_t bytes) {
  const auto& where = links_->where;
  const wire_sum& s = x.traffic.sums[c.sum];
  std::vector<uint32_t> to = s.results_to;
  if (s.passes_to) to = {*s.passes_to};
  const std::span<const std::byte> what(buffer->bytes.get(), bytes);
  x.outgoing[x.added] = {buffer, to.size()};
  for (const uint32_t m : to) {
    const uint32_t machine = where.machine_of(m);
    const uint64_t part = s.passes_to ? part_of_partial(c, where, machine) : part_of_result(c, where, machine);
    links_->mover->send(where.place_of(m), name_of(x, part), what,
                        [ends = ends_, buffer, tag = transfer_tag{x.r.id.sequence, kind::outgoing, m, x.added}](
                            const core::result<void>& how) { ends->tell(tag, how); });
  }
}

/// Adds the next chunk, if all of its bytes have arrived and there is room for the bytes it sends. Returns true if a
/// chunk was added.
bool member_work::add_chunk(job& x) {
  if (x.adding.empty() || !x.adding.front().missing.empty()) return false;
  const wire_chunk& c = x.traffic.chunks[x.added];
  const wire_sum& s = x.traffic.sums[c.sum];
  const request& r = x.r;
  const auto options = options_of(r);
  const auto came = x.adding.front().buffer;
  std::shared_ptr<staging_buffer> leaves;
  const uint64_t bytes = s.passes_to ? partial_bytes(r, c.count) : result_bytes(r, c.count);
  if (s.passes_to || !s.results_to.empty()) {
    leaves = outgoing_.take(bytes);
    if (leaves == nullptr) return false;
  }

  const uint64_t in_size = core::size_of(r.input_type);
  std::vector<const std::byte*> inputs;
  uint64_t offset = 0;
  for (const uint32_t m : s.inputs) {
    if (links_->where.machine_of(m) == machine_) {
      inputs.push_back(x.memory[m].input + (s.from + c.first) * in_size);
    } else {
      inputs.push_back(came->bytes.get() + offset);
      offset += c.count * in_size;
    }
  }
  if (s.passes_to) {
    if (s.continues) std::memcpy(leaves->bytes.get(), came->bytes.get(), bytes);
    kernels::add_in_rank_order(inputs, leaves->bytes.get(), !s.continues, c.count, options);
  } else {
    if (s.continues) kernels::add_in_rank_order(inputs, came->bytes.get(), false, c.count, options);
    // If results are sent, the rounded sum is made once, before any output is written, because an output may also be an
    // input.
    const auto sum_into = [&](std::byte* to, core::dtype output, bool accumulate) {
      auto o = s.continues ? ended_as(r, kernels::partial_type(options), output, accumulate) : options;
      o.output = output;
      o.accumulate = accumulate;
      const std::byte* const partial[] = {s.continues ? came->bytes.get() : nullptr};
      kernels::sum_in_rank_order(s.continues ? std::span<const std::byte* const>(partial) : inputs, to, c.count, o);
    };
    if (leaves != nullptr) sum_into(leaves->bytes.get(), result_type(r), false);
    store_all(r, x.memory, s.outputs, c, [&](std::byte* to) {
      if (leaves == nullptr) return sum_into(to, r.output_type, r.accumulate);
      const std::byte* const sum[] = {leaves->bytes.get()};
      kernels::sum_in_rank_order(sum, to, c.count, ended_as(r, result_type(r), r.output_type, r.accumulate));
    });
  }
  if (leaves != nullptr) pass(x, c, leaves, bytes);
  if (came != nullptr) incoming_.give_back(came);
  x.adding.pop_front();
  ++x.added;
  return true;
}

/// True if the sum of chunk `c` may be written to its outputs. An operation in place writes a sum over contributions
/// to it. The received sum shows that the contributions have arrived, but the mover may read one again until it has
/// reported the end of its send.
bool member_work::may_overwrite(const job& x, const wire_chunk& c, const wire_result& result) {
  if (x.r.accumulate) return true;
  const auto all_sent = [&] {
    return std::ranges::all_of(result.outputs,
                               [&](const auto& o) { return sent_.of(o.member) >= x.sent_before + c.contributions; });
  };
  if (all_sent()) return true;
  waits_ = true;
  sent_.wait(me_);
  if (!all_sent()) return false;
  waits_ = false;
  return true;
}

bool member_work::store_result(job& x) {
  if (x.coming.empty() || !x.coming.front().missing.empty()) return false;
  const wire_chunk& c = x.traffic.result_chunks[x.stored];
  const wire_result& result = x.traffic.results[c.sum];
  if (!may_overwrite(x, c, result)) return false;
  const std::byte* const sum[] = {x.coming.front().buffer->bytes.get()};
  store_all(x.r, x.memory, result.outputs, c, [&](std::byte* to) {
    kernels::sum_in_rank_order(sum, to, c.count, ended_as(x.r, result_type(x.r), x.r.output_type, x.r.accumulate));
  });
  results_.give_back(x.coming.front().buffer);
  x.coming.pop_front();
  ++x.stored;
  return true;
}

bool member_work::is_finished(const job& x) const {
  return x.copied && x.num_sent == x.sent.size() && x.num_landed == x.landed.size() && x.to_spread.empty() &&
         x.added == x.traffic.chunks.size() && x.stored == x.traffic.result_chunks.size() && x.outgoing.empty();
}

member_work::outcome member_work::go_on(const std::function<bool(uint64_t)>& has_failed) {
  outcome out;
  waits_ = false;
  const auto for_each_job = [&](const auto& f) {
    for (auto& [sequence, x] : jobs_)
      if (has_failed(sequence) || !f(x)) return;
  };
  for (bool more = true; more && !out.failed;) {
    more = false;
    take_ends(out);
    count_sent(out);
    for_each_job([&](job& x) {
      spread(x);
      if (!x.copied) copy(x);
      return true;
    });
    // Staging memory is allocated, and sums are made, in the order of operations: for_each_job stops at the first
    // operation that has chunks left, so no later operation takes memory that an earlier one needs.
    for_each_job([&](job& x) {
      await_chunks(x);
      return x.added + x.adding.size() == x.traffic.chunks.size();
    });
    for_each_job([&](job& x) {
      while (!has_failed(x.r.id.sequence) && add_chunk(x)) more = true;
      return x.added == x.traffic.chunks.size();
    });
    for_each_job([&](job& x) {
      await_results(x);
      return x.stored + x.coming.size() == x.traffic.result_chunks.size();
    });
    for_each_job([&](job& x) {
      while (!has_failed(x.r.id.sequence) && store_result(x)) more = true;
      return x.stored == x.traffic.result_chunks.size();
    });
  }
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    if (!is_finished(it->second)) {
      ++it;
      continue;
    }
    out.finished.push_back(it->first);
    it = jobs_.erase(it);
  }
  return out;
}

std::vector<uint32_t> member_work::awaited(uint64_t sequence) const {
  const auto found = jobs_.find(sequence);
  if (found == jobs_.end()) return {};
  const job& x = found->second;
  std::set<uint32_t> out;
  for (size_t i = 0; i < x.landed.size(); ++i)
    if (!x.landed[i]) out.insert(x.traffic.landings[i].from);
  for (size_t i = 0; i < x.sent.size(); ++i)
    if (!x.sent[i]) out.insert(x.traffic.sends[i].to);
  for (const auto* under_way : {&x.adding, &x.coming})
    for (const auto& c : *under_way) out.insert(c.missing.begin(), c.missing.end());
  for (const auto& [number, l] : x.outgoing) {
    const wire_sum& s = x.traffic.sums[x.traffic.chunks[number].sum];
    if (s.passes_to) out.insert(*s.passes_to);
    out.insert(s.results_to.begin(), s.results_to.end());
  }
  return {out.begin(), out.end()};
}

uint64_t member_work::most_staged_bytes() const { return incoming_.most() + outgoing_.most() + results_.most(); }

}  // namespace troupe::fabric
