// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderSystem
import LarderTesting

extension Peer {
  /// Gets a value that lives for a second and is served stale for a minute. A computation leaves a file
  /// in the directory `log`, and waits for the lock "computations".
  func refresh(_ words: [Substring]) throws -> String {
    let (key, text, log) = (try number(words[0]), String(words[1]), String(words[2]))
    let (cache, lock) = (try numbers, try store.lock("computations"))
    let outcome = Outcome<String>()
    Task.detached {
      let result: Result<String, any Error>
      do {
        let value = try await cache.value(
          forKey: key, expires: .after(.seconds(1)), refresh: Refresh(staleFor: .seconds(60))
        ) {
          try TestFiles.write([1], to: "\(log)/\(text)-\(ProcessIdentity.pid)")
          try await lock.withLock(timeout: .seconds(600)) { _ async in }
          return text
        }
        result = .success(value)
      } catch {
        result = .failure(error)
      }
      outcome.set(result)
    }
    return "value \(try outcome.wait())"
  }
}

extension Peer {
  /// Gets the values of a range of keys, and computes the missing ones together. Leaves a file for each
  /// key that it computes in the directory `log`.
  func batch(_ words: [Substring]) throws -> String {
    let (keys, log) = (try number(words[0])..<number(words[1]), String(words[2]))
    let cache = try numbers
    let outcome = Outcome<String>()
    Task.detached {
      let result: Result<String, any Error>
      do {
        let values = try await cache.values(forKeys: keys) { missing in
          for key in missing {
            try TestFiles.write([1], to: "\(log)/\(key)-\(ProcessIdentity.pid)")
          }
          return Dictionary(uniqueKeysWithValues: missing.map { ($0, "v\($0)") })
        }
        let isRight = values == Dictionary(uniqueKeysWithValues: keys.map { ($0, "v\($0)") })
        result = .success(isRight ? "right" : "wrong \(values.count)")
      } catch {
        result = .failure(error)
      }
      outcome.set(result)
    }
    return try outcome.wait()
  }
}
