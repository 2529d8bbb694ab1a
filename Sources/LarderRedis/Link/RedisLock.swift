// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderCache
internal import LarderEngine
internal import LarderSystem
internal import Synchronization

// THE LOCKS OF ALL HOSTS
//
//   PREFIX:l:{NAME}   the holder: a random number, and for errors its host and process; it expires
//   PREFIX:f:{NAME}   the number of times that the lock was taken; it stays
//
// The holder renews the first key at each third of the lease. If no renewal has succeeded, a tenth of the lease
// before the key can expire, which is counted from the time before the last one was sent, it cancels the closure.

/// A lock of ``RedisLink/withLock(_:timeout:lease:_:)``, while it is held.
public struct RedisLockHold: Sendable, Hashable {
  /// A number that grows with each holder: at least the time of the server in microseconds, so that it also
  /// grows if the server has lost its data, unless its clock is set back. Pass it to what the lock protects, which can then refuse requests of
  /// a former holder.
  public let fencingToken: UInt64
}

extension RedisLink {
  /// Runs a closure while no other process of any host runs one with the same lock.
  ///
  /// ```swift
  /// import LarderRedis
  ///
  /// let link = try RedisLink(url: "redis://cache.internal", prefix: "shop")
  /// try await link.withLock("nightly report", timeout: .seconds(5)) { hold in
  ///   print("the only one, number \(hold.fencingToken)")
  /// }
  /// ```
  ///
  /// The lock is a lease: if its process ends, or cannot reach the server, another one gets the lock after
  /// `lease`. The task of the closure is cancelled before that; a closure that runs on, or a process that is
  /// stopped meanwhile, is not alone any more. If the server has lost the lock by the end of the closure, that
  /// is ``RedisError/Code/lockLost`` as well. A failover can lose the lock, because Redis replicates
  /// asynchronously. Where this matters, check ``RedisLockHold/fencingToken`` at what the lock protects.
  ///
  /// The lock is not fair, and not re-entrant. For the processes of one host, use `SharedStore.lock(_:)`, which
  /// is both exact and fair.
  ///
  /// - Parameters:
  ///   - name: The name, 1 to 256 bytes. The locks of a prefix are separate from its values.
  ///   - timeout: The longest wait for the lock. While the server does not answer, the time limits of the link
  ///     count instead, if they are longer.
  ///   - lease: The time after which the lock of a process that has ended is free, from 1 second.
  ///   - body: The closure.
  /// - Returns: What the closure returns.
  /// - Throws: ``RedisError``: ``RedisError/Code/lockTimeout`` with the host and the process of the holder,
  ///   ``RedisError/Code/lockLost`` after the end of the closure. `CancellationError`. What the closure throws.
  public func withLock<R: Sendable>(
    _ name: String, timeout: Duration = .seconds(10), lease: Duration = .seconds(10),
    _ body: @escaping @Sendable (RedisLockHold) async throws -> R
  ) async throws -> R {
    try await RedisLock(service, name, lease).run(within: timeout, body)
  }
}

/// One use of a lock.
private struct RedisLock: Sendable {
  private let service: RedisService
  private let name: String
  private let lease: Duration
  private let holder: String
  private static let pause = 10...50

  init(_ service: RedisService, _ name: String, _ lease: Duration) throws(RedisError) {
    guard (1...256).contains(name.utf8.count), lease >= .seconds(1), lease <= .seconds(86_400)
    else {
      throw RedisError(
        .invalidOption, service.server,
        "The name of a lock has 1 to 256 bytes, and a lease is from 1 second to a day.")
    }
    self.service = service
    self.name = CustomStorageKey.escaped(name.utf8)
    self.lease = lease
    holder =
      "\(UInt64.random(in: 0...UInt64.max)) host \(ProcessIdentity.hostName) process \(ProcessIdentity.pid)"
  }

  private var key: String { "\(service.keys.prefix):l:{\(name)}" }
  private var fence: String { "\(service.keys.prefix):f:{\(name)}" }

  private func execute(
    _ script: String, _ keys: [String], within timeout: Duration
  ) async throws -> RedisValue {
    var arguments: [any RedisArgument] = [script, keys.count]
    for key in keys { arguments.append(key) }
    arguments += [holder, RedisService.milliseconds(lease)] as [any RedisArgument]
    return try await service.client.send(RedisCommand("EVAL", arguments), timeout: timeout)
  }

  func run<R: Sendable>(
    within timeout: Duration, _ body: @escaping @Sendable (RedisLockHold) async throws -> R
  ) async throws -> R {
    let (hold, sent): (RedisLockHold, ContinuousClock.Instant)
    do {
      (hold, sent) = try await acquire(until: .now + timeout)
    } catch {
      // The server may have executed the last attempt. The caller does not wait for a lost one.
      if (error as? RedisError)?.code != .lockTimeout { await releaseSoon() }
      throw error
    }
    let term = LockTerm(end: sent + lease)
    let task = Task { try await body(hold) }
    let renewal = BlockingWork.task { await self.renew(term) }
    let guardian = BlockingWork.task {
      if await term.isOver(margin: margin) { task.cancel() }
    }
    let result = await withTaskCancellationHandler {
      await task.result
    } onCancel: {
      task.cancel()
    }
    let isLost = term.isLost
    renewal.cancel()
    guardian.cancel()
    if Task.isCancelled, case .failure(let error) = result {
      await releaseSoon()
      throw error
    }
    if await release() == false || isLost {
      throw RedisError(
        .lockLost, service.server,
        "The lock \"\(name)\" was not held until the closure ended: it could not be renewed within \(lease), or "
          + "the server has lost it. Another process may have had it. Check the network and the server, or "
          + "pass a longer lease.")
    }
    return try result.get()
  }

  private var margin: Duration { lease / 10 }
  /// The time limit of one request, with a connection.
  private var request: Duration {
    service.client.configuration.connectTimeout + service.client.configuration.timeout
  }

  /// Returns the lock, and a time before its lease began.
  private func acquire(
    until end: ContinuousClock.Instant
  ) async throws -> (RedisLockHold, ContinuousClock.Instant) {
    while true {
      let sent = ContinuousClock.now
      let reply = try await execute(
        RedisScript.lock, [key, fence], within: max(end - sent, request))
      if let number = reply.integer {
        guard let token = UInt64(exactly: number) else {
          await release()
          throw RedisError(
            .unreadableValue, service.server,
            "The key \(fence) has a number that no lock has written. Remove it.")
        }
        // A lease whose reply came so late may be over.
        if ContinuousClock.now < sent + lease - margin {
          return (RedisLockHold(fencingToken: token), sent)
        }
        await release()
      }
      if ContinuousClock.now >= end {
        let holder = reply.text?.split(separator: " ", maxSplits: 1).last
        throw RedisError(
          .lockTimeout, service.server,
          holder.map { "The lock \"\(name)\" is held by \($0). Wait longer, or end that process." }
            ?? "The lock \"\(name)\" was free, and its lease of \(lease) was over before the answer came. "
            + "Pass a longer lease.")
      }
      let pause = Duration.milliseconds(Int.random(in: Self.pause))
      try await BlockingWork.sleep(for: min(pause, max(end - .now, .milliseconds(1))))
    }
  }

  /// Renews the lock until the task is cancelled, or the lock has another holder.
  private func renew(_ term: LockTerm) async {
    var pause = lease / 3
    while (try? await BlockingWork.sleep(for: pause)) != nil {
      let sent = ContinuousClock.now
      do {
        if try await execute(RedisScript.renew, [key], within: lease / 3).integer == 1 {
          term.renew(until: sent + lease)
        } else {
          if !Task.isCancelled { term.lose() }
          return
        }
        pause = lease / 3
      } catch {
        pause = lease / 10
      }
    }
  }

  /// Ends the lock.
  ///
  /// - Returns: Whether it was still this one's; `nil` if the server has not answered.
  @discardableResult
  private func release() async -> Bool? {
    (try? await beginRelease().value) ?? nil
  }

  /// Ends the lock after a cancellation. The wait is short, also if the server is lost.
  private func releaseSoon() async {
    let error = RedisError(.timeout, service.server, "The lock was not ended in time.")
    await BlockingWork.task {
      _ = try? await SharedWait.value(of: beginRelease(), until: .now + .milliseconds(200), error)
    }.value
  }

  private func beginRelease() -> Task<Bool?, any Error> {
    // Also after the task was cancelled; after a failure the lease ends.
    BlockingWork.task {
      try? await execute(RedisScript.release, [key], within: request).integer == 1
    }
  }
}

/// The time until which a lock is held.
private final class LockTerm: Sendable {
  private let end: Mutex<ContinuousClock.Instant>

  init(end: ContinuousClock.Instant) { self.end = Mutex(end) }

  var isLost: Bool { end.withLock { $0 <= .now } }

  /// Extends the term. One that is over stays so: the closure is cancelled.
  func renew(until new: ContinuousClock.Instant) {
    end.withLock { if $0 > .now { $0 = new } }
  }

  func lose() { end.withLock { $0 = .now } }

  /// Waits until the term is nearly over, and ends it, or until the task is cancelled.
  func isOver(margin: Duration) async -> Bool {
    while true {
      let left = end.withLock { end in
        let left = end - margin - .now
        if left <= .zero { end = .now }
        return left
      }
      if left <= .zero { return true }
      // A lock that has another holder is noticed within the margin.
      guard (try? await BlockingWork.sleep(for: min(left, margin))) != nil else { return false }
    }
  }
}
#endif
