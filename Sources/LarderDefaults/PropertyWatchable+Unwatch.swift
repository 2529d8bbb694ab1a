// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension PropertyWatchable {
  /// The watches of a property, the oldest first.
  ///
  /// A key path that names the property as one of a superclass or subclass finds the same watches:
  /// it is the same property if it reads the same watched properties and has the same type.
  public func watching<Value>(
    by keyPath: KeyPath<Self, Value>, id: String? = nil
  ) -> [PropertyWatcherInfo] {
    observations(of: keyPath).filter { id == nil || $0.id.text == id }.map(PropertyWatcherInfo.init)
  }

  /// The watches of all properties of this object, the oldest first.
  public func watching(id: String? = nil) -> [PropertyWatcherInfo] {
    WatchRegistry.observations(of: self).filter { id == nil || $0.id.text == id }
      .map(PropertyWatcherInfo.init)
  }

  /// Ends watches of a property: those with the ids, or all.
  ///
  /// - Returns: For each id, whether there was a watch to end.
  @discardableResult
  public func unwatch<Value>(
    _ keyPath: KeyPath<Self, Value>, forIds ids: [String]? = nil
  ) -> [String: Bool] {
    end(observations(of: keyPath, includingGone: true), ids)
  }

  /// Ends the watches with these ids, of whatever property of this object.
  ///
  /// - Returns: For each id, whether there was a watch to end.
  @discardableResult
  public func unwatch(forIds ids: [String]) -> [String: Bool] {
    end(WatchRegistry.observations(of: self, includingGone: true), ids)
  }

  /// Ends the watches of this object that stand in the calling file and have automatic ids.
  ///
  /// - Returns: Whether there were any.
  @discardableResult
  public func unwatchAllFilePrivate(_file: String = #fileID) -> Bool {
    let found = WatchRegistry.observations(of: self, includingGone: true).filter {
      $0.id.file == _file
    }
    for observation in found { observation.end() }
    return !found.isEmpty
  }

  /// Ends all watches of this object.
  ///
  /// In a `deinit` it lets go at once of what the handlers hold; otherwise that goes with the next
  /// change of what was watched, or the next watches of it.
  public func unwatchAll() {
    for observation in WatchRegistry.observations(of: self, includingGone: true) {
      observation.end()
    }
  }

  // MARK: Parts

  func watchID(
    _ id: String?, _ file: String, _ function: String, _ line: Int, _ column: Int
  ) -> WatchID {
    guard let id else {
      return WatchID(text: "\(file)_\(function)_\(line)_\(column)", file: file)
    }
    return WatchID(text: id, file: nil)
  }

  func startWatch<Value>(
    _ keyPath: KeyPath<Self, Value>, _ id: WatchID, _ options: WatchOptions, isShared: Bool,
    _ handler: @escaping (Self, WatchedChange<Value>) -> Void
  ) -> PropertyWatcherInfo {
    for old in observations(of: keyPath, id: id) { old.end() }
    let observation = PropertyObservation(
      self, keyPath, id: id, options: options, isShared: isShared, handler: handler)
    WatchRegistry.add(observation, of: self)
    observation.start()
    return withExtendedLifetime(observation) { PropertyWatcherInfo(observation) }
  }

  private func observations<Value>(
    of keyPath: KeyPath<Self, Value>, id: WatchID? = nil, includingGone: Bool = false
  ) -> [any Observation] {
    let all = WatchRegistry.observations(of: self, id: id, includingGone: includingGone)
    guard !all.isEmpty else { return [] }
    let accesses = AccessTracker.track { self[keyPath: keyPath] }.accesses
    return all.filter { $0.isOf(keyPath, reading: accesses) }
  }

  private func end(_ observations: [any Observation], _ ids: [String]?) -> [String: Bool] {
    var result: [String: Bool] = [:]
    for id in ids ?? [] { result[id] = false }
    for observation in observations where ids?.contains(observation.id.text) ?? true {
      observation.end()
      result[observation.id.text] = true
    }
    return result
  }
}
