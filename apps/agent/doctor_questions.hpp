// What `troupe doctor --cluster` asks the host of an agent, as bytes. Owns their form; who answers is
// host_examiner.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/agent/pair_meter.hpp"
#include "apps/machine/cluster_facts.hpp"

namespace troupe::apps {

/// Answer: host_facts.
struct look_question {
  std::string folder;              ///< of the job's output
  std::string token;               ///< a file there that the first host has written
  std::vector<std::string> files;  ///< that the job reads
};
/// Opens a mover of bytes. Answer: mover_place.
struct open_question {
  std::string secret;
  uint32_t place = 0;  ///< the host's number
  /// Of the job's file: cluster.hosts[].bind of this host, and cluster.interface. Where both are empty it takes bytes
  /// on the address by which it is known.
  std::string bind{}, interface {};
};
struct mover_place {
  uint32_t place = 0;
  std::string host;
  uint16_t port = 0;
};
/// Connects it to all others. Answer: nothing.
struct connect_question {
  std::vector<mover_place> all;
};
/// Measures the way to another host. Answer: pair_speed.
struct measure_question {
  uint32_t place = 0;
};
using doctor_question = std::variant<look_question, open_question, connect_question, measure_question>;

std::string encode(const doctor_question& q);
std::optional<doctor_question> decode_question(const std::string& bytes);

/// The answer to a question, or a sentence why there is none.
template <class T>
std::string encode_answer(const core::result<T>& answer);
/// Errors: what the host says; mismatch, for bytes that are no answer.
template <class T>
core::result<T> decode_answer(const std::string& bytes);

struct no_answer {};  ///< of questions that only do something

}  // namespace troupe::apps
