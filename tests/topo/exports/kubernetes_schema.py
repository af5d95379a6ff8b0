"""The parts of Kubernetes' and NFD's APIs that our manifests and exports use, as a strict JSON schema: required fields,
grammars of names, limits. A field that is not here is refused. Written down from the documentation of the APIs."""

LABEL_VALUE = r"^(?=.{0,63}$)(([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?)$"
LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
DOMAIN = rf"{LABEL}(\.{LABEL})*"
LABEL_NAME = rf"^({DOMAIN}/)?(?=[^/]{{1,63}}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
ATTRIBUTE = rf"^((?=[^/]{{1,63}}/){DOMAIN}/)?[A-Za-z_][A-Za-z0-9_]{{0,31}}$"
SEMVER = r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$"
QUANTITY = r"^\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$"

TEXT = {"type": "string", "minLength": 1}
FLAG = {"type": "boolean"}
COUNT = {"type": "integer", "minimum": 0}
NAME = {"type": "string", "pattern": rf"^{DOMAIN}$", "maxLength": 253}
SHORT_NAME = {"type": "string", "pattern": rf"^{LABEL}$"}


def thing(required: str, **fields) -> dict:
    return {"type": "object", "required": required.split(), "properties": fields, "additionalProperties": False}


def array(items: dict, most: int | None = None, least: int = 1) -> dict:
    return {"type": "array", "items": items, "minItems": least, **({"maxItems": most} if most else {})}


def mapping(keys: str, values: dict) -> dict:
    return {"type": "object", "propertyNames": {"pattern": keys}, "additionalProperties": values}


def one(text: str) -> dict:
    return {"const": text}


LABELS = mapping(LABEL_NAME, {"type": "string", "pattern": LABEL_VALUE})
METADATA = thing("name", name=NAME, namespace=SHORT_NAME, labels=LABELS)
QUANTITIES = mapping(LABEL_NAME, {"anyOf": [{"type": "string", "pattern": QUANTITY}, COUNT]})


def resource(version: str, kind: str, **spec) -> dict:
    return thing("apiVersion kind metadata" + (" spec" if spec else ""), apiVersion=one(version), kind=one(kind),
                 metadata=METADATA, **spec)


CONTAINER = thing(
    "name image", name=SHORT_NAME, image=TEXT, command=array(TEXT), args=array(TEXT),
    env=array(thing("name value", name={"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}, value=TEXT)),
    resources=thing("", requests=QUANTITIES, limits=QUANTITIES, claims=array(thing("name", name=SHORT_NAME))),
    securityContext=thing("", privileged=FLAG, capabilities=thing("", add=array(TEXT), drop=array(TEXT))),
    volumeMounts=array(thing("name mountPath", name=SHORT_NAME, mountPath={"type": "string", "pattern": "^/"}, readOnly=FLAG)))
EXPRESSION = thing("key operator", key={"type": "string", "pattern": LABEL_NAME},
                   operator={"enum": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]}, values=array(TEXT))
POD = thing(
    "containers", containers=array(CONTAINER), initContainers=array(CONTAINER), automountServiceAccountToken=FLAG,
    hostNetwork=FLAG, dnsPolicy={"enum": ["ClusterFirst", "ClusterFirstWithHostNet", "Default"]},
    restartPolicy={"enum": ["Always", "OnFailure", "Never"]}, nodeSelector=LABELS,
    tolerations=array(thing("", key=TEXT, operator={"enum": ["Exists", "Equal"]}, value=TEXT, effect=TEXT)),
    affinity=thing("nodeAffinity", nodeAffinity=thing(
        "requiredDuringSchedulingIgnoredDuringExecution",
        requiredDuringSchedulingIgnoredDuringExecution=thing(
            "nodeSelectorTerms", nodeSelectorTerms=array(thing("matchExpressions", matchExpressions=array(EXPRESSION)))))),
    volumes=array(thing("name", name=SHORT_NAME, hostPath=thing(
        "path", path={"type": "string", "pattern": "^/"}, type={"enum": ["Directory", "DirectoryOrCreate", "File"]}),
        emptyDir=thing("", medium=one("Memory"), sizeLimit={"type": "string", "pattern": QUANTITY}))),
    resourceClaims=array(thing("name resourceClaimTemplateName", name=SHORT_NAME, resourceClaimTemplateName=NAME)))
TEMPLATE = thing("metadata spec", metadata=thing("labels", labels=LABELS), spec=POD)

CEL = array(thing("cel", cel=thing("expression", expression={"type": "string", "minLength": 1, "maxLength": 10240})), 32)
REQUEST = thing("name exactly", name=SHORT_NAME, exactly=thing("deviceClassName", deviceClassName=NAME, count=COUNT, selectors=CEL))
CLAIM = thing("devices", devices=thing(
    "requests", requests=array(REQUEST, 32),
    constraints=array(thing("matchAttribute", requests=array(SHORT_NAME, 32),
                            matchAttribute={"type": "string", "pattern": ATTRIBUTE}), 32)))

ATTRIBUTE_VALUE = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": False, "properties": {
    "string": {"type": "string", "maxLength": 64}, "int": {"type": "integer"}, "bool": FLAG,
    "version": {"type": "string", "pattern": SEMVER, "maxLength": 64}}}
DEVICE = thing("name", name=SHORT_NAME,
               attributes={**mapping(ATTRIBUTE, ATTRIBUTE_VALUE), "maxProperties": 32},
               capacity=mapping(ATTRIBUTE, thing("value", value={"type": "string", "pattern": QUANTITY})))
SLICE = resource("resource.k8s.io/v1", "ResourceSlice", spec=thing(
    "driver pool devices nodeName", driver={**NAME, "maxLength": 63}, nodeName=NAME,
    pool=thing("name generation resourceSliceCount", name=NAME, generation=COUNT,
               resourceSliceCount={"type": "integer", "minimum": 1}),
    devices=array(DEVICE, 128)))

MATCH = thing("op", op={"enum": ["In", "NotIn", "InRegexp", "Exists", "DoesNotExist", "Gt", "Lt", "GtLt", "IsTrue", "IsFalse"]},
              value=array(TEXT))
RULE = thing("name matchFeatures", name=TEXT, labels=LABELS,
             taints=array(thing("key effect", key={"type": "string", "pattern": LABEL_NAME}, value=TEXT,
                                effect={"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]})),
             matchFeatures=array(thing("feature matchExpressions", feature={"enum": ["local.label", "local.feature"]},
                                       matchExpressions=mapping(LABEL_NAME, MATCH))))

KINDS = {
    "Namespace": resource("v1", "Namespace"),
    "Pod": resource("v1", "Pod", spec=POD),
    "Job": resource("batch/v1", "Job", spec=thing("template", template=TEMPLATE, backoffLimit=COUNT)),
    "DaemonSet": resource("apps/v1", "DaemonSet", spec=thing(
        "selector template", selector=thing("matchLabels", matchLabels=LABELS), template=TEMPLATE,
        updateStrategy=thing("type", type={"enum": ["RollingUpdate", "OnDelete"]}))),
    "NodeFeatureRule": resource("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule", spec=thing("rules", rules=array(RULE))),
    "DeviceClass": resource("resource.k8s.io/v1", "DeviceClass", spec=thing("", selectors=CEL)),
    "ResourceClaimTemplate": resource("resource.k8s.io/v1", "ResourceClaimTemplate", spec=thing("spec", spec=CLAIM)),
    "ResourceSlice": SLICE,
}
