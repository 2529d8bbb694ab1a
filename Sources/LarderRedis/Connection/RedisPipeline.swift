// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderSystem
internal import NIOCore
internal import Synchronization

// SENDING AND RECEIVING
//
// Replies have no names: the server sends them in the order of the commands. So the order of `pending` must be
// the order of the bytes on the connection, and both change under one lock.
//
// The thread of a caller sends its commands itself, if the socket takes them at once; the thread of the
// connection need not wake up for that. What the socket does not take goes through the channel, as all
// commands do until the channel has sent it (`queued`), and all those of a connection with TLS.

/// The commands of a connection that have no reply yet.
final class RedisPipeline: Sendable {
  typealias Continuation = CheckedContinuation<[RedisValue], any Error>

  /// Commands that were sent together.
  private struct Request {
    let id: UInt64
    let commands: Int
    let deadline: NIODeadline
    let timeout: TimeAmount
    /// The caller, unless it no longer waits. The replies are still read.
    var caller: Continuation?
  }

  private struct State {
    var pending = CircularBuffer<Request>()
    var pendingCommands = 0
    /// The number of replies to the first request, and these replies if it has a caller.
    var received = 0
    var replies: [RedisValue] = []
    var nextID: UInt64 = 0
    /// The error of requests from now on, after the end.
    var failure: RedisError?
    /// Whether the connection has ended before all replies came.
    var hasEndedUnanswered = false
    var writer: SocketWriter?
    /// The writes that the channel has not finished.
    var queued = 0
    /// Whether the deadlines are watched.
    var isWatched = false
  }

  /// The number of bytes that most sockets take at once.
  private static let directLimit = 64 << 10
  private let server: String
  private let limit: Int
  private let state = Mutex(State())

  init(_ configuration: RedisConfiguration) {
    server = "\(configuration.address)"
    limit = configuration.pendingLimit
  }

  /// Lets callers send by themselves.
  func setWriter(_ writer: SocketWriter) { state.withLock { $0.writer = writer } }

  // MARK: Sending

  /// Sends commands.
  ///
  /// - Parameters:
  ///   - watch: A closure that begins to call ``expire(_:)``.
  /// - Returns: The number of the request, for ``abandon(_:_:)``; zero if it was refused.
  func send(
    _ bytes: [UInt8], commands: Int, within timeout: TimeAmount,
    _ caller: Continuation, on channel: any Channel, watch: @escaping @Sendable () -> Void
  ) -> UInt64 {
    // Copied by this thread, and not under the lock, if the socket will probably not take all.
    let copy = bytes.count > Self.directLimit ? ByteBuffer(bytes: bytes) : nil
    let outcome = state.withLock { state -> Result<UInt64, RedisError> in
      if let failure = state.failure { return .failure(failure) }
      guard state.pendingCommands + commands <= limit else {
        return .failure(overload(state.pendingCommands))
      }
      state.nextID += 1
      let id = state.nextID
      state.pending.append(
        Request(
          id: id, commands: commands, deadline: .now() + timeout, timeout: timeout, caller: caller))
      state.pendingCommands += commands
      if !state.isWatched {
        state.isWatched = true
        channel.eventLoop.execute(watch)
      }
      let sent = state.queued == 0 ? state.writer?.send(bytes) ?? 0 : 0
      if sent < bytes.count {
        state.queued += 1
        let rest =
          copy?.getSlice(at: sent, length: bytes.count - sent) ?? ByteBuffer(bytes: bytes[sent...])
        channel.eventLoop.execute { [self] in
          channel.writeAndFlush(rest).whenComplete { _ in
            self.state.withLock { $0.queued -= 1 }
          }
        }
      }
      return .success(id)
    }
    switch outcome {
    case .success(let id): return id
    case .failure(let error):
      caller.resume(throwing: error)
      return 0
    }
  }

  private func overload(_ waiting: Int) -> RedisError {
    RedisError(
      .overloaded, server,
      "\(waiting) commands wait for an answer. Wait before sending more, or raise pendingLimit.")
  }

  // MARK: The ends of requests

  /// Adds a reply.
  ///
  /// - Returns: Whether a request waited for it.
  func take(_ reply: RedisValue) -> Bool {
    let (isWanted, caller, replies) = state.withLock {
      state -> (Bool, Continuation?, [RedisValue]) in
      guard let first = state.pending.first else { return (false, nil, []) }
      state.pendingCommands -= 1
      state.received += 1
      if first.caller != nil { state.replies.append(reply) }
      guard state.received == first.commands else { return (true, nil, []) }
      state.pending.removeFirst()
      defer { (state.received, state.replies) = (0, []) }
      return (true, first.caller, state.replies)
    }
    caller?.resume(returning: replies)
    return isWanted
  }

  /// Fails a request whose caller no longer waits.
  func abandon(_ id: UInt64, _ error: any Error) {
    let caller = state.withLock { state -> Continuation? in
      // The requests of the queue have consecutive numbers.
      guard let first = state.pending.first, id >= first.id,
        id - first.id < UInt64(state.pending.count)
      else { return nil }
      let offset = Int(id - first.id)
      if offset == 0 { state.replies = [] }
      let index = state.pending.index(state.pending.startIndex, offsetBy: offset)
      defer { state.pending[index].caller = nil }
      return state.pending[index].caller
    }
    caller?.resume(throwing: error)
  }

  /// Fails the requests after their deadlines.
  ///
  /// - Returns: The time limit of one of them; the time at which the next request to be answered was sent, if
  ///   that is late, whether it has a caller or not; and whether there are requests.
  func expire(
    _ error: (TimeAmount) -> RedisError
  ) -> (expired: TimeAmount?, overdue: NIODeadline?, continues: Bool) {
    let now = NIODeadline.now()
    let (late, overdue, continues) = state.withLock { state in
      var late: [(Continuation, TimeAmount)] = []
      for index in state.pending.indices where state.pending[index].deadline <= now {
        if let caller = state.pending[index].caller {
          late.append((caller, state.pending[index].timeout))
          state.pending[index].caller = nil
        }
      }
      if let first = state.pending.first, first.caller == nil { state.replies = [] }
      state.isWatched = !state.pending.isEmpty
      let overdue = state.pending.first.flatMap { $0.deadline <= now ? $0 : nil }
      return (late, overdue.map { $0.deadline - $0.timeout }, state.isWatched)
    }
    for (caller, timeout) in late { caller.resume(throwing: error(timeout)) }
    return (late.first?.1, overdue, continues)
  }

  /// Refuses requests from now on.
  func refuse(_ error: RedisError) {
    state.withLock { state in if state.failure == nil { state.failure = error } }
  }

  /// Fails all requests after the end of the connection, with the first error that was named.
  func end(_ error: RedisError) {
    let (callers, error, writer) = state.withLock { state in
      let first = state.failure ?? error
      state.failure = first
      if !state.pending.isEmpty { state.hasEndedUnanswered = true }
      defer {
        (state.pending, state.pendingCommands) = (CircularBuffer(), 0)
        (state.received, state.replies) = (0, [])
        state.writer = nil
      }
      return (state.pending.compactMap { $0.caller }, first, state.writer)
    }
    // The server would otherwise wait for the second descriptor.
    writer?.shutDown()
    for caller in callers { caller.resume(throwing: error) }
  }

  /// Whether commands have no reply: now, or at the end of the connection.
  var isUnanswered: Bool {
    state.withLock { $0.hasEndedUnanswered || !$0.pending.isEmpty }
  }

  /// The error of requests from now on, if there is one.
  var failure: RedisError? { state.withLock { $0.failure } }
}
#endif
