// Owns the functions of a Python session for a training loop of the program's own: forward, backward and forget.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "apps/python/training/python_session.hpp"
#include "apps/python/training/python_values.hpp"

namespace troupe::apps {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

/// Returns (number of the pass, loss, logarithms of probabilities as (type, shape, memory)).
nb::tuple forward(python_session& s, const nb::object& tokens, const nb::object& counted) {
  actors::token_batch batch;
  {
    const auto given = rows_of_tokens_in("Session.forward: tokens", tokens);
    batch.rows = given.shape(0);
    batch.tokens.assign(given.data(), given.data() + given.size());
  }
  if (!counted.is_none()) batch.counted = flags_in("Session.forward: counted", counted);
  auto pass = call(s, "Session.forward", [&](training_session& t, const auto&) { return t.session().forward(batch); });
  const auto rows = static_cast<int64_t>(batch.rows);
  const auto columns = static_cast<int64_t>(pass.log_probabilities.size()) / rows;
  return nb::make_tuple(pass.number, pass.loss, tensor_of(std::move(pass.log_probabilities), {rows, columns}));
}

void backward(python_session& s, uint64_t number, double factor) {
  call(s, "Session.backward", [&](training_session& t, const auto&) { return t.session().backward(number, factor); });
}

void backward_by(python_session& s, uint64_t number, const nb::object& gradients) {
  const auto held = floats_in("Session.backward: gradients", gradients);
  call(s, "Session.backward", [&](training_session& t, const auto&) {
    return t.session().backward(number, std::span<const float>(held.data(), held.size()));
  });
}

void forget(python_session& s) {
  const call_scope held(s, "Session.forget");
  s.work.session().forget();
}

}  // namespace

void add_own_loop(session_class& c) {
  c.def("forward", forward, "tokens"_a, "counted"_a.none())
      .def("backward", backward, "number"_a, "factor"_a)
      .def("backward_by", backward_by, "number"_a, "gradients"_a)
      .def("forget", forget);
}

}  // namespace troupe::apps
