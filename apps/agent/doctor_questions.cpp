#include "apps/agent/doctor_questions.hpp"

#include <fmt/format.h>

#include <utility>

#include "core/byte_stream.hpp"

namespace troupe::apps {

void fields(auto& f, look_question& x) { f(x.folder, x.token, x.files); }
void fields(auto& f, open_question& x) { f(x.secret, x.place, x.bind, x.interface); }
void fields(auto& f, mover_place& x) { f(x.place, x.host, x.port); }
void fields(auto& f, connect_question& x) { f(x.all); }
void fields(auto& f, measure_question& x) { f(x.place); }
void fields(auto& f, host_facts& x) {
  f(x.version, x.program, x.configuration, x.processor, x.instructions, x.cores, x.memory_bytes, x.available_bytes,
    x.folder, x.free_bytes, x.sees_token, x.cannot_write, x.missing_files);
}
void fields(auto& f, pair_speed& x) { f(x.delay_s, x.bytes_per_s); }
void fields(auto&, no_answer&) {}

namespace {

template <class T>
struct answered {
  std::string error;
  std::optional<T> what;
};
template <class F, class T>
void fields(F& f, answered<T>& x) {
  f(x.error, x.what);
}

}  // namespace

std::string encode(const doctor_question& q) { return core::as_bytes(q); }

std::optional<doctor_question> decode_question(const std::string& bytes) {
  return core::from_bytes<doctor_question>(bytes);
}

template <class T>
std::string encode_answer(const core::result<T>& answer) {
  answered<T> out;
  if (answer)
    out.what = *answer;
  else
    out.error = answer.error().text;
  return core::as_bytes(out);
}

template <class T>
core::result<T> decode_answer(const std::string& bytes) {
  auto x = core::from_bytes<answered<T>>(bytes);
  if (!x)
    return core::fail(core::error_kind::mismatch,
                      fmt::format("the doctor: wanted an answer, got {} other bytes", bytes.size()));
  if (!x->what) return core::fail(core::error_kind::peer_lost, x->error);
  return std::move(*x->what);
}

template std::string encode_answer(const core::result<host_facts>&);
template std::string encode_answer(const core::result<mover_place>&);
template std::string encode_answer(const core::result<pair_speed>&);
template std::string encode_answer(const core::result<no_answer>&);
template core::result<host_facts> decode_answer(const std::string&);
template core::result<mover_place> decode_answer(const std::string&);
template core::result<pair_speed> decode_answer(const std::string&);
template core::result<no_answer> decode_answer(const std::string&);

}  // namespace troupe::apps
