// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// A waiter for a closure with a completion. The first call of the completion counts. If the closure
/// releases its completion without a call, the operation fails.
final class OneShotContinuation<Output: Sendable>: Sendable {
  private let waiting: Mutex<CheckedContinuation<Output, any Error>?>
  private let operation: String

  init(_ continuation: CheckedContinuation<Output, any Error>, _ operation: String) {
    waiting = Mutex(continuation)
    self.operation = operation
  }

  deinit { answer(.failure(StorageError.completionNotCalled(operation))) }

  func answer(_ result: Result<Output, any Error>) {
    waiting.withLock { $0.take() }?.resume(with: result)
  }
}

extension StorageOperation {
  /// An operation that calls back.
  static func completing(
    _ operation: String,
    _ call:
      @escaping @Sendable (
        Input, @escaping @Sendable (Result<Output, any Error>) -> Void
      ) -> Void
  ) -> StorageOperation {
    .asynchronous { input in
      try await withCheckedThrowingContinuation { continuation in
        let completion = OneShotContinuation(continuation, operation)
        call(input) { completion.answer($0) }
      }
    }
  }

  /// A read that calls back. Failing with the error of a miss is a miss.
  static func retrieving<Value: Sendable>(
    _ retrieve:
      @escaping @Sendable (
        Input, @escaping @Sendable (Result<Value, any Error>) -> Void
      ) -> Void
  ) -> StorageOperation where Output == Value? {
    let call = StorageOperation<Input, Value>.completing("value", retrieve)
    return .asynchronous { key in
      do { return try await call(key) } catch StorageError.Code.noValue { return nil }
    }
  }
  /// A write that calls back.
  static func setting<Key: Sendable, Value: Sendable>(
    _ set:
      @escaping @Sendable (
        Value, Key, @escaping @Sendable (Result<Void, any Error>) -> Void
      ) -> Void
  ) -> StorageOperation where Input == StorageWrite<Key, Value>, Output == Void {
    .completing("set") { write, completion in set(write.value, write.key, completion) }
  }
}
