// What a host answers to `troupe doctor --cluster`: looks at its machine, at the folder of the job's output and at the
// job's files, and measures the network to other hosts. Owns the mover of bytes that it measures with.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/agent/doctor_questions.hpp"

namespace troupe::net {
class tls_mover;
}

namespace troupe::apps {

struct examiner_setup {
  std::filesystem::path program;  ///< that computes: troupe-train
  std::string configuration;      ///< digest of this host's own file; empty: it has none
  std::string address;            ///< on which this host takes bytes
};

class host_examiner {
 public:
  explicit host_examiner(examiner_setup setup);
  ~host_examiner();
  host_examiner(const host_examiner&) = delete;
  host_examiner& operator=(const host_examiner&) = delete;

  /// The address on which this host takes bytes from now on.
  void listen_at(std::string address) { setup_.address = std::move(address); }
  /// Nothing is open any more.
  void end();

  /// The answer to a question, as bytes. Waits for what it measures.
  std::string answer(const std::string& question);

 private:
  core::result<host_facts> follow(const look_question& q);
  core::result<mover_place> follow(const open_question& q);
  core::result<no_answer> follow(const connect_question& q);
  core::result<pair_speed> follow(const measure_question& q);

  examiner_setup setup_;
  std::unique_ptr<net::tls_mover> mover_;
  std::unique_ptr<pair_meter> meter_;
  uint32_t place_ = 0;
};

/// The instructions of this processor by which products of matrices differ, and what ATEN_CPU_CAPABILITY leaves of
/// them.
std::string product_instructions(const std::string& processor, const std::vector<std::string>& flags,
                                 const char* capability);

}  // namespace troupe::apps
