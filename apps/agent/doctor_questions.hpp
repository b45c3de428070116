// Owns the byte format of the questions that `troupe doctor --cluster` sends to the host of an agent. Leaves the
// answers to host_examiner.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/agent/pair_meter.hpp"
#include "apps/machine/cluster_facts.hpp"

namespace troupe::apps {

/// Asks a host for facts about itself: versions, processor, folders and files. Answer: host_facts.
struct look_question {
  std::string folder;              ///< folder of the job's output
  std::string token;               ///< path of a file in `folder` that the first host has written
  std::vector<std::string> files;  ///< paths of files that the job reads
};
/// Asks the host to open a byte mover (the object that transfers a job's data between hosts), which listens for
/// connections of other hosts. Answer: mover_place.
struct open_question {
  std::string secret;
  uint32_t place = 0;  ///< number of the host in the job
  /// The values of this host's cluster.hosts[].bind and of cluster.interface. If both are empty, the host receives
  /// bytes on the address by which the job reached it.
  std::string bind{}, interface {};
};
struct mover_place {
  uint32_t place = 0;
  std::string host;
  uint16_t port = 0;
};
/// Asks the host to connect its byte mover to the byte movers of all other hosts. Answer: no_answer.
struct connect_question {
  std::vector<mover_place> all;
};
/// Asks the host to measure the path to another host. Answer: pair_speed.
struct measure_question {
  uint32_t place = 0;
};
using doctor_question = std::variant<look_question, open_question, connect_question, measure_question>;

std::string encode(const doctor_question& q);
std::optional<doctor_question> decode_question(const std::string& bytes);

/// Encodes the answer to a question, or the error that prevented it.
template <class T>
std::string encode_answer(const core::result<T>& answer);
/// Decodes the answer to a question. Errors: peer_lost with the text of the error that the host sent; mismatch for
/// bytes that are no answer.
template <class T>
core::result<T> decode_answer(const std::string& bytes);

struct no_answer {};  ///< answer to a question that only performs an action

}  // namespace troupe::apps
