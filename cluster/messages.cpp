#include "cluster/messages.hpp"

#include <fmt/format.h>

#include <array>

namespace troupe::cluster {

// Fields of each message, listed once for encoding and decoding.
void fields(auto& f, hello& x) { f(x.process_id, x.version, x.configuration); }
void fields(auto& f, beat& x) { f(x.said_ns, x.received_ns, x.of_ns); }
void fields(auto& f, offer& x) { f(x.term, x.number); }
void fields(auto& f, ready& x) { f(x.term, x.digest, x.step); }
void fields(auto& f, quiet& x) { f(x.term); }
void fields(auto& f, failed& x) { f(x.term, x.kind, x.text, x.lost_place); }
void fields(auto& f, call& x) { f(x.term, x.number, x.what); }
void fields(auto& f, answer& x) { f(x.term, x.number, x.place, x.what); }
void fields(auto& f, kept_file& x) { f(x.path, x.bytes, x.place); }
void fields(auto& f, address& x) { f(x.term, x.place, x.host, x.port); }
void fields(auto& f, kept_save& x) { f(x.folder, x.written, x.step); }
void fields(auto& f, between_steps& x) { f(x.term, x.data); }
void fields(auto& f, leaving& x) { f(x.code); }
void fields(auto& f, seat& x) { f(x.place, x.first, x.count, x.machine); }
void fields(auto& f, run_so_far::degree& x) { f(x.step, x.data); }
void fields(auto& f, run_so_far& x) { f(x.degrees, x.steps, x.steps_again, x.lost_ns); }
void fields(auto& f, begin_term& x) { f(x.number, x.data, x.seats, x.folder, x.cause, x.secret, x.before); }
void fields(auto& f, started& x) { f(x.term); }
void fields(auto& f, end_term& x) { f(x.term, x.is_final, x.kind, x.text); }
void fields(auto& f, join_wanted& x) { f(x.term); }
void fields(auto&, dismissal&) {}
void fields(auto& f, job_order& x) {
  f(x.arguments, x.file_argument, x.file, x.folder, x.machine, x.places, x.lost_after_ns);
}
void fields(auto& f, start_place& x) { f(x.place); }
void fields(auto& f, kill_place& x) { f(x.place); }
void fields(auto& f, place_ended& x) { f(x.place, x.how); }
void fields(auto& f, passed& x) { f(x.place, x.what); }
void fields(auto& f, signalled& x) { f(x.signal, x.place); }
void fields(auto& f, job_over& x) { f(x.code, x.why, x.goes_on); }

void fields(auto& f, machine_question& x) { f(x.number, x.what); }
void fields(auto& f, machine_answer& x) { f(x.number, x.what); }
void fields(auto& f, place_row& x) { f(x.place, x.host, x.process_id, x.state, x.losses, x.first, x.count); }
void fields(auto& f, roster& x) { f(x.term, x.places); }
void fields(auto& f, replace_wanted& x) { f(x.term, x.host); }

namespace {

constexpr std::array<std::string_view, std::variant_size_v<message>> names = {
    "hello", "beat", "offer", "ready", "quiet", "failed", "call", "answer", "kept_file", "kept_save", "between_steps",
    "leaving", "begin_term", "started", "end_term", "join_wanted", "dismissal", "address",
    // messages to and from agents of other machines, then roster and replace_wanted, which processes exchange
    "job_order", "start_place", "kill_place", "place_ended", "passed", "signalled", "job_over", "machine_question",
    "machine_answer", "roster", "replace_wanted"};

}  // namespace

std::string encode(const message& m) { return core::as_bytes(m); }

core::result<message> decode(std::string_view bytes) {
  auto out = core::from_bytes<message>(bytes);
  if (out) return std::move(*out);
  return core::fail(core::error_kind::mismatch,
                    fmt::format("a message between processes: wanted one of {} kinds, got {} bytes that are none",
                                names.size(), bytes.size()));
}

std::string_view name_of(const message& m) { return names[m.index()]; }

}  // namespace troupe::cluster
