#include "fabric/wire/notes.hpp"

#include <algorithm>

#include "core/byte_stream.hpp"

namespace troupe::fabric {
namespace {

std::string text_in(const std::array<char, 128>& what) { return {what.begin(), std::ranges::find(what, '\0')}; }

}  // namespace

void fields(auto& f, piece& p) { f(p.owner, p.from, p.to, p.count); }

namespace {

void fields_of(auto& f, arrival& a, std::string& what) {
  f(a.digest, a.step, a.num_pieces, a.communicator, a.input_scale, a.op, a.input_type, a.communication, a.output_type,
    a.accumulate, what);
  for (piece& p : a.first_pieces) f(p);
}

void fields_of(auto& f, wire_note& x, std::string& what) {
  f(x.what, x.member, x.sequence);
  if (x.what == wire_note::kind::arrived)
    fields_of(f, x.said, what);
  else
    f(x.why.kind, x.why.text);
}

}  // namespace

std::string text_of(uint64_t communicator, const wire_note& note) {
  wire_note copy = note;
  copy.why.text.resize(std::min<uint64_t>(copy.why.text.size(), reason_bytes_max));
  std::string what = text_in(copy.said.what);
  core::byte_writer out;
  out(communicator);
  fields_of(out, copy, what);
  return out.take();
}

std::optional<wire_note> note_of(std::string_view text) {
  wire_note out;
  std::string what;
  core::byte_reader in(text);
  fields_of(in, out, what);
  if (!in.is_whole() || out.what > wire_note::kind::ended || what.size() >= out.said.what.size() ||
      out.said.op > operation::all_to_all)
    return std::nullopt;
  std::ranges::copy(what, out.said.what.begin());
  return out;
}

std::optional<uint64_t> take_communicator(std::string_view& text) {
  uint64_t number = 0;
  core::byte_reader in(text.substr(0, sizeof number));
  in(number);
  if (!in.is_whole()) return std::nullopt;
  text.remove_prefix(sizeof number);
  return number;
}

std::shared_ptr<note_switch> note_switch::make(byte_mover& mover) {
  std::shared_ptr<note_switch> out(new note_switch);
  mover.on_note([to = std::weak_ptr(out)](uint32_t from, std::string_view text) {
    if (const auto alive = to.lock()) alive->pass(from, text);
  });
  return out;
}

std::shared_ptr<note_switch::line> note_switch::line_of(uint64_t communicator) {
  const std::lock_guard lock(mutex_);
  auto& out = lines_[communicator];
  if (!out) out = std::make_shared<line>();
  return out;
}

void note_switch::pass(uint32_t from, std::string_view text) {
  const auto communicator = take_communicator(text);
  if (!communicator) return;
  const auto to = line_of(*communicator);
  const std::lock_guard turn(to->turn);
  if (to->hear)
    to->hear(from, text);
  else
    to->early.emplace_back(from, text);
}

void note_switch::add(uint64_t communicator, hearer hear) {
  const auto to = line_of(communicator);
  const std::lock_guard turn(to->turn);
  to->hear = std::move(hear);
  for (const auto& [from, text] : to->early) to->hear(from, text);
  to->early.clear();
}

}  // namespace troupe::fabric
