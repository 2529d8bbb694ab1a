// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The treatment of failed reads.
public struct ReadFailurePolicy: Sendable {
  let report: @Sendable (any Error) -> Void

  /// A failed read is a miss: the next layer is read, or the result is no value.
  public static let readErrorsAsMisses = ReadFailurePolicy { _ in }

  /// A failed read is a miss, and the error is reported.
  public static func readErrorsAsMisses(
    reporting: @escaping @Sendable (any Error) -> Void
  ) -> ReadFailurePolicy {
    ReadFailurePolicy(report: reporting)
  }

  func recovering<Key, Output>(
    _ call: StorageOperation<Key, Output>, as miss: Output
  ) -> StorageOperation<Key, Output> {
    let report = report
    return .composed(call.kind) { key in
      do { return try call.now!(key) } catch {
        report(error)
        return miss
      }
    } asynchronous: { key in
      do { return try await call(key) } catch {
        report(error)
        return miss
      }
    }
  }

  func recovering<Key, Value>(
    _ operations: StorageOperations<Key, Value>
  ) -> StorageOperations<Key, Value> {
    var result = operations
    let report = report
    result.read = recovering(operations.read, as: nil)
    result.entry = operations.entry.map { recovering($0, as: nil) }
    result.contains = recovering(operations.containing, as: false)
    result.update = operations.update?.pullback { update in
      var update = update
      let recover = update.recover
      update.recover = { error in
        report(error)
        guard let recover else { return nil }
        return try recover(StorageError.noValue(in: "recovered"))
      }
      return update
    }
    return result
  }
}

extension StorageProtocol {
  /// The storage with a treatment of failed reads.
  ///
  /// ```swift
  /// let images = disk.recovering(.readErrorsAsMisses).combined(with: remote)
  /// ```
  public func recovering(_ recovery: ReadFailurePolicy) -> Storage<Key, Value> {
    asStorage().mapped { recovery.recovering($0) }
  }

  /// The storage with a value for every key: if the value is missing or cannot be read, `produce` creates
  /// one from the error. A read does not store it; an update begins with it.
  public func fallback(
    with produce: @escaping @Sendable (any Error) throws -> Value
  ) -> Storage<Key, Value> {
    let name = storageName
    return asStorage().mapped { $0.fallback(name, produce) }
  }

  /// The storage with a default for keys whose value is missing or cannot be read. A read does not store
  /// it; an update begins with it:
  ///
  /// ```swift
  /// try await visits.defaulting(to: 0).update(forKey: "home") { $0 += 1 }
  /// ```
  public func defaulting(
    to value: @autoclosure @escaping @Sendable () -> Value
  ) -> Storage<Key, Value> {
    fallback { _ in value() }
  }
}

extension ReadOnlyStorageProtocol {
  /// The storage with a treatment of failed reads.
  public func recovering(_ recovery: ReadFailurePolicy) -> ReadOnlyStorage<Key, Value> {
    asReadOnlyStorage().mapped { recovery.recovering($0) }
  }

  /// The storage with a value for every key; see ``StorageProtocol/fallback(with:)``.
  public func fallback(
    with produce: @escaping @Sendable (any Error) throws -> Value
  ) -> ReadOnlyStorage<Key, Value> {
    let name = storageName
    return asReadOnlyStorage().mapped { $0.fallback(name, produce) }
  }

  /// The storage with a value for every key; see ``StorageProtocol/defaulting(to:)``.
  public func defaulting(
    to value: @autoclosure @escaping @Sendable () -> Value
  ) -> ReadOnlyStorage<Key, Value> {
    fallback { _ in value() }
  }
}

extension StorageOperations {
  func fallback(
    _ name: String, _ produce: @escaping @Sendable (any Error) throws -> Value
  ) -> StorageOperations {
    var result = self
    result.read = read.fallback(name, produce)
    result.entry = entry?.fallback(name) { StorageEntry(try produce($0)) }
    result.contains = nil
    result.update = update?.pullback { update in
      var update = update
      let (change, recover) = (update.change, update.recover)
      update.recover = { error in
        if let recover { return try recover(error) ?? StorageEntry(produce(error)) }
        return StorageEntry(try produce(error))
      }
      update.change = { entry in
        if entry == nil { entry = StorageEntry(try produce(StorageError.noValue(in: name))) }
        try change(&entry)
      }
      return update
    }
    return result
  }
}

extension StorageOperation {
  func fallback<Value>(
    _ name: String, _ produce: @escaping @Sendable (any Error) throws -> Value
  ) -> StorageOperation where Output == Value? {
    let call = self
    return .composed(kind) { key in
      let value: Value?
      do { value = try call.now!(key) } catch { return try produce(error) }
      return try value ?? produce(StorageError.noValue(in: name))
    } asynchronous: { key in
      let value: Value?
      do { value = try await call(key) } catch { return try produce(error) }
      return try value ?? produce(StorageError.noValue(in: name))
    }
  }
}
