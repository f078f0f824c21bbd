{{- define "auditor.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "auditor.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "auditor.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "auditor.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "auditor.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "auditor.claim" -}}
{{- default (include "auditor.name" .) .Values.persistence.existingClaim -}}
{{- end -}}

{{- /* A JSON text, number, boolean or list of texts is the same in TOML. */ -}}
{{- define "auditor.toml" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- if gt (int .Values.listers.port) 0 -}}
{{- $_ := set $settings "lister_port" (int .Values.listers.port) -}}
{{- end -}}
{{- range $key := keys $settings | sortAlpha }}
{{ $key }} = {{ get $settings $key | toRawJson }}
{{- end }}
{{- end -}}
