// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// An object whose properties can be watched by key path.
///
/// ```swift
/// final class Player: PropertyWatchable {
///   @Watched var volume = 0.5
///   @Watched var title: String?
/// }
///
/// let player = Player()
/// player.watch(\.title) { player, change in
///   print(change.newValue ?? nil ?? "nothing")
/// }
/// ```
///
/// What can be watched: properties that are ``Watched``, inherited ones too, and computed ones that
/// read such properties, of this object or of others. ``Defaults`` are watchable themselves; there,
/// and in properties of `Sendable` objects that read defaults, changes by other processes are heard
/// as well.
///
/// **When handlers run.** A change of a ``Watched`` property runs them on the changing thread, before
/// the assignment returns, in the order of their watches, also when the new value equals the old
/// one. A change of a default, by any process, this one included, runs them on a thread of Swift's
/// pool soon after the commit, one change after the other, the newest value only, and not when the
/// same is stored again.
///
/// **What a handler may do.** Anything, such as to end watches, or to let go of the object or close
/// the defaults it watches. It is not called for what changes on its thread while it runs: a handler
/// that sets the property it watches is not called for that, and other handlers are. That holds for
/// a default as well, whose change is heard of later. One that ends its own watch is not called
/// again. Two handlers that answer each other's change of a default go on for ever.
///
/// **What is held.** A watch does not hold the object; it ends with it. What the handler captures is
/// held until then: use the object it is given, because a handler that captures the object keeps it
/// alive until the watch is ended. A watch of something that outlives the object lets go of what it
/// captures at its next change, when others watch it, or when the object ends its watches in its
/// `deinit`; never does a source keep more than twice the watches that are alive, and a few.
public protocol PropertyWatchable: AnyObject {}

/// When a handler runs and what it is given. The new value is always there.
public struct WatchOptions: OptionSet, Sendable, Hashable {
  /// The bits, as in `NSKeyValueObservingOptions`.
  public let rawValue: UInt
  /// Makes options of their bits.
  public init(rawValue: UInt) { self.rawValue = rawValue }

  /// The new value is wanted. It always comes.
  public static let new = WatchOptions(rawValue: 1)
  /// The value before the change is wanted. For defaults: the last that was seen.
  public static let old = WatchOptions(rawValue: 2)
  /// The handler runs within `watch` already.
  public static let initial = WatchOptions(rawValue: 4)
  /// The handler also runs before each change, with ``WatchedChange/isPrior``. For defaults, which
  /// others change: right before it runs for the change.
  public static let prior = WatchOptions(rawValue: 8)
}

/// What a handler is told of a change.
public struct WatchedChange<Value> {
  /// The value now; `nil` before the change.
  public let newValue: Value?
  /// The value before, with ``WatchOptions/old``.
  public let oldValue: Value?
  /// Whether the change is still to come.
  public let isPrior: Bool
}

extension WatchedChange: Sendable where Value: Sendable {}

/// A watch, to be looked at or ended.
public struct PropertyWatcherInfo: Sendable {
  /// The id it was given, or got of the place it stands at.
  public let id: String
  /// Whether the id was made of the place in the source.
  public let isAutomatic: Bool
  private weak var observation: (any Observation)?

  init(_ observation: any Observation) {
    id = observation.id.text
    isAutomatic = observation.id.file != nil
    self.observation = observation
  }

  /// Whether it can still be called. `false` from the beginning: the property reads nothing that
  /// can be watched.
  public var isWatching: Bool { observation?.isAttached ?? false }

  /// Ends the watch. Idempotent.
  public func unwatch() { observation?.end() }
}

extension PropertyWatchable {
  /// Runs a handler after each change of a property.
  ///
  /// - Parameters:
  ///   - id: What to call the watch. An object has one watch of a property under an id; a second
  ///     one takes its place. Without it, the place in the source is the id: a line that runs again
  ///     does not add up.
  ///   - options: See ``WatchOptions``.
  ///   - changeHandler: Given the object and the change. It runs where the object is changed.
  @discardableResult
  public func watch<Value>(
    _ keyPath: KeyPath<Self, Value>, _file: String = #fileID, _function: String = #function,
    _line: Int = #line, _column: Int = #column, id: String? = nil,
    options: WatchOptions = .new,
    changeHandler: @escaping (Self, WatchedChange<Value>) -> Void
  ) -> PropertyWatcherInfo {
    let id = watchID(id, _file, _function, _line, _column)
    return startWatch(keyPath, id, options, isShared: false, changeHandler)
  }

  /// Runs a handler after each change of a property.
  @discardableResult
  public func watch<Value>(
    _ keyPath: KeyPath<Self, Value>, _file: String = #fileID, _function: String = #function,
    _line: Int = #line, _column: Int = #column, id: String? = nil,
    options: WatchOptions = .new, changeHandler: @escaping () -> Void
  ) -> PropertyWatcherInfo {
    let id = watchID(id, _file, _function, _line, _column)
    return startWatch(keyPath, id, options, isShared: false) { _, _ in changeHandler() }
  }
}

extension PropertyWatchable where Self: Sendable {
  /// Runs a handler after each change of a property, on whichever thread it happens.
  ///
  /// Properties that read ``Defaults`` are heard of changes by other processes.
  @discardableResult
  public func watch<Value>(
    _ keyPath: any KeyPath<Self, Value> & Sendable, _file: String = #fileID,
    _function: String = #function, _line: Int = #line, _column: Int = #column, id: String? = nil,
    options: WatchOptions = .new,
    changeHandler: @escaping @Sendable (Self, WatchedChange<Value>) -> Void
  ) -> PropertyWatcherInfo {
    let id = watchID(id, _file, _function, _line, _column)
    return startWatch(keyPath, id, options, isShared: true, changeHandler)
  }

  /// Runs a handler after each change of a property, on whichever thread it happens.
  @discardableResult
  public func watch<Value>(
    _ keyPath: any KeyPath<Self, Value> & Sendable, _file: String = #fileID,
    _function: String = #function, _line: Int = #line, _column: Int = #column, id: String? = nil,
    options: WatchOptions = .new, changeHandler: @escaping @Sendable () -> Void
  ) -> PropertyWatcherInfo {
    let id = watchID(id, _file, _function, _line, _column)
    return startWatch(keyPath, id, options, isShared: true) { _, _ in changeHandler() }
  }
}
