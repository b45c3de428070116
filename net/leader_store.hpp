// Stores which host leads a job: one key, held by a lease that expires unless it is refreshed. Owns the interface and
// the key's text; etcd_store.hpp implements it with an etcd, tests with a fake.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace troupe::net {

/// The host that leads a job: it runs the job's supervisor, to which the agents of the other hosts connect
struct lead {
  std::string host;       ///< name of the leading host, as in its certificate
  std::string address;    ///< HOST:PORT where the leader accepts the agents of the other hosts
  std::string authority;  ///< digest of the authority's certificate; a different one means another job
  bool operator==(const lead&) const = default;
};

/// Returns the text that the store's key has while `x` leads. read_lead converts back; returns nothing for any other
/// text.
std::string as_text(const lead& x);
std::optional<lead> read_lead(const std::string& text);

/// Returns "/troupe/JOB/leader", the key of a job's leader. key_of_end returns "/troupe/JOB/over", the key of the exit
/// code of a job that has ended.
std::string key_of_leader(const std::string& job);
std::string key_of_end(const std::string& job);

class leader_store {  ///< reads and changes the entry of one job's leader in the store; used by one thread
 public:
  virtual ~leader_store() = default;

  struct standing {
    std::optional<lead> who;  ///< the current leader; none: there is no leader
    std::optional<int> over;  ///< exit code of the last job with this name, if it has ended
    bool is_mine = false;     ///< true if this call has made this host the leader
  };
  enum class part : uint8_t { begins, continues };
  /// Makes `me` the leader for the duration of a lease, if there is no leader. A job that begins may follow an ended
  /// one; a job that continues must not have ended. Errors: peer_lost, if no member of the store answers; mismatch, if
  /// the key has a value other than a leader.
  virtual core::result<standing> take(const lead& me, part of) = 0;
  /// Extends the lease by its full duration. Returns false if the lease has expired, so that another host may lead.
  /// Errors: peer_lost.
  virtual core::result<bool> refresh() = 0;
  /// Returns the current leader and, if the job has ended, its exit code. Errors: peer_lost, if no member of the store
  /// answers; mismatch, if the key has a value other than a leader.
  virtual core::result<standing> read() = 0;
  /// Revokes this host's lease, if it has one, so that the job has no leader. `over`: exit code of the job, stored for
  /// hosts without a connection to the leader, unless another host leads by now. Errors: peer_lost; the lease then
  /// expires.
  virtual core::result<void> give_up(std::optional<int> over) = 0;
};

/// Returns the duration of a lease: `lost_after_s` rounded up to whole seconds, etcd's unit, and at least 2 s, the
/// shortest lease of etcd.
uint32_t lease_s_for(double lost_after_s);

}  // namespace troupe::net
