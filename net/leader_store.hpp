// Where the hosts of a job say who leads it: one key, held by a lease that runs out where nobody refreshes it. Owns the
// interface and the key's text; etcd_store.hpp has it with a real etcd, tests with a made-up one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace troupe::net {

struct lead {             ///< who leads a job
  std::string host;       ///< as its certificate has it
  std::string address;    ///< HOST:PORT where it awaits the agents of the others
  std::string authority;  ///< digest of the certificate that both ends trust: another one means another job
  bool operator==(const lead&) const = default;
};

/// The key's value. Reading: nothing for what is not so.
std::string as_text(const lead& x);
std::optional<lead> read_lead(const std::string& text);

/// "/troupe/JOB/leader", and "/troupe/JOB/over", which holds the exit code of a job that has ended.
std::string key_of_leader(const std::string& job);
std::string key_of_end(const std::string& job);

class leader_store {  ///< of one job and one host; one thread
 public:
  virtual ~leader_store() = default;

  struct standing {
    std::optional<lead> who;  ///< leads now; none: nobody does
    std::optional<int> over;  ///< the job has ended with this code, and none of its name has begun since
    bool is_mine = false;     ///< taken by this call
  };
  enum class part : uint8_t { begins, continues };
  /// `me` leads from now on, for as long as a lease lasts, where nobody did: a job that begins, whatever has ended
  /// before, or one that continues, unless it is over. Errors: peer_lost, where no member of the store answers;
  /// mismatch, where the key holds something else than a leader.
  virtual core::result<standing> take(const lead& me, part of) = 0;
  /// The lease begins anew. False: it has run out, and another may lead. Errors: peer_lost.
  virtual core::result<bool> refresh() = 0;
  /// Errors: as `take`.
  virtual core::result<standing> read() = 0;
  /// Nobody leads any more, where this host did. `over`: the job's end, which hosts that are cut off hear later; nobody
  /// hears it where another one leads by now. Errors: peer_lost; then the lease runs out.
  virtual core::result<void> give_up(std::optional<int> over) = 0;
};

/// A lease's length: `lost_after` in whole seconds, which is what etcd counts in, and not below its shortest, 2 s.
uint32_t lease_s_for(double lost_after_s);

}  // namespace troupe::net
