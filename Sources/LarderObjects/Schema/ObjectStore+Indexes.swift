// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

/// The progress of a long-running operation.
public struct ObjectProgress: Sendable, Hashable {
  /// The operation and the type it processes.
  public let step: String
  /// The number of processed objects.
  public let done: Int
  /// The total number of objects.
  public let total: Int
}

extension ObjectStore {
  /// Declares a type and waits until its indexes are complete.
  ///
  /// An index that was declared after objects were stored is built in the background by the first
  /// save or query of the type in any process, in steps of at most a thousand objects, each of them
  /// a transaction; other processes read and write meanwhile. Until it is complete, queries scan,
  /// and `explain()` shows how far it is. One process builds at a time; when it is killed,
  /// another that uses the type continues. This call starts the build if none runs, and waits.
  ///
  /// Objects that no program could decode which built an index are tried again; while there are any, no
  /// query uses the index. If another program of the same version has replaced an index by its own
  /// declaration of the name, the call replaces it again, and that program stops using it.
  ///
  /// ```swift
  /// try objects.prepare(Car.self) { print("\($0.step): \($0.done) of \($0.total)") }
  /// ```
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - limit: The longest wait, or `nil` to wait as long as the build makes steps.
  ///   - progress: A closure that is called on the calling thread when the build has advanced.
  /// - Throws: ``ObjectError/Code/uniqueViolation`` if stored objects violate a new unique index;
  ///   no query uses the index, and later saves are compared with its keys.
  ///   ``ObjectError/Code/buildTimeout`` after `limit`, naming the process that builds, and
  ///   `CancellationError` if the current task is cancelled; the build continues after both.
  ///   ``ObjectError/Code/invalidSchema``, ``ObjectError/Code/newerSchema``,
  ///   ``ObjectError/Code/schemaMismatch`` or ``ObjectError/Code/migrationInProgress`` if the type
  ///   cannot be declared; `StoreError` if the store is closed.
  /// - Complexity: O(*n* log *n*) in the objects of the type if an index is incomplete.
  public func prepare<Object: Storable>(
    _ type: Object.Type, within limit: Duration? = nil,
    progress: (ObjectProgress) -> Void = { _ in }
  ) throws {
    let kind = kind(type)
    guard try declare(kind) else { return }
    kind.startBuild(again: true)
    try kind.build.wait(within: limit) { status in
      progress(
        ObjectProgress(
          step: "index \"\(status.index)\" of \(kind.name)", done: status.done, total: status.total)
      )
    } expired: { status in
      let place = status.map { "The index \"\($0.index)\" has \($0.done) of \($0.total) objects" }
      let builder = status?.builder.map { "; process \($0) made the last step" }
      return ObjectError(
        .buildTimeout, type: kind.name,
        "\(place ?? "The indexes are not complete")\(builder ?? "") after "
          + "\(limit ?? .zero). The build continues; wait longer, or query without the index.",
        index: status?.index)
    }
    try kind.requireNotReplaced(in: storage)
  }

  /// Declares a type, and replaces indexes that another program declares differently.
  ///
  /// - Returns: Whether an index is incomplete.
  private func declare<Object: Storable>(_ kind: ObjectTypeDescriptor<Object>) throws -> Bool {
    kind.build.declarations.add(1, ordering: .relaxed)
    defer { kind.build.declarations.subtract(1, ordering: .relaxed) }
    return try write { transaction in
      try transaction.erasing(kind) { transaction in
        try kind.learnRelations(&transaction.entries)
        let record = try kind.prepare(&transaction.entries)
        return kind.isUnbuilt(record) || record.indexes.contains { $0.lacksObjects == true }
      }
    }
  }

  /// Declares a type and waits until its indexes are complete, without blocking a thread of the
  /// cooperative pool.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - limit: The longest wait, or `nil` to wait as long as the build makes steps.
  ///   - progress: A closure that is called on a thread of the library when the build has advanced.
  /// - Throws: The errors of the synchronous overload.
  public func prepare<Object: Storable>(
    _ type: Object.Type, within limit: Duration? = nil,
    progress: @escaping @Sendable (ObjectProgress) -> Void = { _ in }
  ) async throws {
    try await BackgroundExecutor.shared.run {
      try self.prepare(type, within: limit, progress: progress)
    }
  }
}
